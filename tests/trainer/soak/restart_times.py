# SPDX-License-Identifier: MIT
"""Measures how long the parts of a restart take: kills a rank of a run some times, and says when the run went on.

    .venv/bin/python tests/trainer/soak/restart_times.py --kills 5
    .venv/bin/python tests/trainer/soak/restart_times.py --kills 3 --config configs/gpt2_124m.yaml batch=64 micro_batch=32 checkpoint.every=20

needs the built programs. Without --config it trains the small language model of the soak on the CPU."""

import argparse
import os
import random
import re
import signal
import statistics
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from soak_run import RESTART, RESUMED, STEP, Deviation, SoakRun  # noqa: E402
from training_runs import TrainingRuns  # noqa: E402

STEPS = 10**7  # the run is killed before
SMALL = ["run.device=cpu", "checkpoint.every=20", "evaluation.every=0"]
DEVICE = re.compile(r"^device: ", re.MULTILINE)
PARTS = {
    "reported": "SIGKILL of a rank to error.json, with all ranks at their end",
    "restarted": "the line of the restart",
    "begun": "a pause of 1 s, the lock of the folder, mpirun",
    "chosen": "start of the ranks, until their devices are known",
    "resumed": "the model and its checkpoint",
    "stepped": "the first step",
}


def report_time(run, reports):
    """Returns when the newest report of a failure was written, on the monotonic clock."""
    names = [name for name in os.listdir(run.folder) if re.fullmatch(r"error(-\d+)?\.json", name) and name not in reports]
    return max(os.stat(run.path(name)).st_mtime for name in names) - time.time() + time.monotonic()


def restart(run, chosen):
    """Kills a rank after a checkpoint. Returns the seconds of each part until the first new step."""
    known = run.newest()
    run.wait(lambda: run.newest() not in (None, known))
    reports = os.listdir(run.folder)
    restarts = len(RESTART.findall(run.output()))
    killed = time.monotonic()
    os.kill(run.ranks()[chosen], signal.SIGKILL)
    moments = {}

    def reached(name, ready):
        if not run.wait(ready):
            raise Deviation("the run ended before this part of a restart: " + PARTS[name])
        moments[name] = time.monotonic()

    reached("restarted", lambda: len(RESTART.findall(run.output())) > restarts)
    moments["reported"] = report_time(run, reports)
    reached("begun", run.ranks)
    reached("chosen", lambda: DEVICE.search(run.words()))
    reached("resumed", lambda: RESUMED.search(run.words()))
    reached("stepped", lambda: STEP.search(run.words()))
    ends = [moments[name] for name in PARTS]
    return [end - begin for begin, end in zip([killed, *ends], ends)]


def table(restarts):
    """Returns a line for each part, with its median and its longest time, and one for the sum."""
    rows = [*zip(PARTS.values(), zip(*restarts)), ("together", [sum(parts) for parts in restarts])]
    return ["%-64s median %5.2f s, most %5.2f s" % (name, statistics.median(seconds), max(seconds)) for name, seconds in rows]


def main(arguments, environment):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--config")
    parser.add_argument("--launcher", default="tools/strata")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    arguments = parser.parse_args(arguments)
    runs = TrainingRuns()
    runs.setUp()
    config = os.path.abspath(arguments.config) if arguments.config else runs.config("restarts", 16)
    overrides = ["steps=%d" % STEPS, "log.every=1", "run.restarts=%d" % arguments.kills, *([] if arguments.config else SMALL), *arguments.overrides]
    run = SoakRun(os.path.abspath(arguments.launcher), environment, config, runs.path("restarts"), "%d.restarts" % os.getpid(), STEPS, overrides)
    chosen = random.Random(arguments.seed)
    try:
        run.start()
        restarts = [restart(run, chosen.randrange(2)) for _ in range(arguments.kills)]
    finally:
        run.kill_all()
        runs.tearDown()
    print("\n".join(table(restarts)))


if __name__ == "__main__":
    main(sys.argv[1:], dict(os.environ))
