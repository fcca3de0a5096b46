# SPDX-License-Identifier: MIT
"""Trains small models under one random fault after another, and compares the end with that of runs without faults.

    .venv/bin/python tests/trainer/soak/soak.py --seconds 3600 --faults 200 --seed 1

needs the built programs and strace. It prints a line for each fault and a summary, and ends with 1 if anything deviates
from what the documentation says."""

import argparse
import os
import random
import shutil
import signal
import statistics
import sys
import time

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

from soak_faults import KINDS, RESTARTED  # noqa: E402
from soak_run import RESTART, Deviation, SoakRun  # noqa: E402
from training_runs import FAMILIES, TrainingRuns  # noqa: E402

STEPS, EVERY = 300, 5
SETTINGS = ["checkpoint.every=%d" % EVERY, "evaluation.every=25", "log.every=1", "run.device=cpu"]
RESTARTS = 8
ROOM_FOR_SKIP = 80  # steps: a run whose update was skipped must be killed before its last step, which it would save
GROWTH = 1.1  # of resident memory, from the first third of a process's time to the last
SLACK = 2048  # KiB that may be added, because a shell counts its restarts
MOST_SECONDS_OF_A_RUN = 3600
WARM = 15  # seconds after which a process has allocated what it needs
MOST_STEPS = 10**7  # of a run that is stopped after some seconds


class Soak:
    def __init__(self, arguments, runs, launcher, environment):
        self.arguments, self.runs, self.launcher, self.environment = arguments, runs, launcher, environment
        self.random = random.Random(arguments.seed)
        self.bag, self.lines, self.deviations, self.named, self.flat = [], [], [], [], []
        self.end = time.monotonic() + arguments.seconds
        self.pending = []  # the faults whose lines are printed when the next step is there

    def over(self):
        return len(self.lines) >= self.arguments.faults or time.monotonic() > self.end

    def deviates(self, run, words):
        self.deviations.append(words)
        said = "".join("\n    " + line for line in run.output().splitlines()[-15:])
        print("DEVIATION of %s: %s%s" % (os.path.basename(run.folder), words, said), flush=True)

    def run_of(self, family, name):
        config = self.runs.config(name, 16)
        chosen = ["steps=%d" % self.arguments.steps, "run.timeout=%d" % self.arguments.timeout]
        overrides = [*SETTINGS, *chosen, *(text.format(data=self.runs.data) for text in FAMILIES[family])]
        run = SoakRun(self.launcher, self.environment, config, self.runs.path(name), "%d.%s" % (os.getpid(), name), self.arguments.steps, overrides)
        run.named, run.strays, run.struck, run.struck_at = self.named, set(), 0, None
        return run

    # One fault.

    def applies(self, run, key):
        kind = KINDS[key]
        if key in ("bit", "truncated", "missing"):
            return len(run.checkpoints()) >= 2
        if key == "stray" and run.newest() is None:
            return False
        if key == "latest":
            return os.path.lexists(run.path("checkpoints", "latest"))
        room = ROOM_FOR_SKIP if key == "skip" else 30
        return not kind.fault or (run.newest() or 0) + room < run.steps

    def next_kind(self, run):
        """Takes the next kind from a bag in which each kind is once, so that all come up."""
        if not self.bag:
            self.bag = [key for key in KINDS if key in self.arguments.kinds]
            self.random.shuffle(self.bag)
        key = next((key for key in self.bag if self.applies(run, key)), None)
        if key is None:
            return self.random.choice([key for key in self.arguments.kinds if not KINDS[key].needs_start])
        if run.alive() and KINDS[key].needs_start:
            return "terminate"  # such a kind needs a start of its own
        self.bag.remove(key)
        return key

    def start(self, run, key):
        fault, _, more = KINDS[key].fault.partition(" ")
        if fault:
            run.struck = (run.newest() or 0) + self.random.randint(2, 7)
            run.start("fault={at: step %d rank %d, kind: %s}" % (run.struck, self.random.randrange(2), fault), *more.split())
        else:
            run.start("run.restarts=%d" % self.random.choice([0, RESTARTS]))

    def strike(self, run, key):
        """Injects a fault into a run, which is started if it does not run."""
        kind = KINDS[key]
        if kind.stopped:
            self.pending.append((kind, kind.strike(run, self.random), "-", 0, time.monotonic()))
            return
        if not run.alive():
            self.start(run, key)
            if kind.needs_start or self.random.random() < 0.7:  # otherwise the next fault may strike while ranks start
                self.expect_a_step(run)
        restarts = len(RESTART.findall(run.output()))
        run.struck_at = None
        moment = kind.strike(run, self.random)
        begin = run.struck_at or time.monotonic()
        if kind.codes:
            run.wait(lambda: len(RESTART.findall(run.output())) > restarts)
        seconds = time.monotonic() - begin
        again = RESTART.findall(run.output())[restarts:]
        code = int(again[0]) if again else run.process.poll()
        self.print_pending(run)
        if code == 0 and self.is_done(run):
            return  # the run had ended before
        self.pending.append((kind, moment, "goes on" if code is None else code, seconds, begin))
        if again:
            run.expected = run.newest()
        elif code is not None:
            run.expect_no_process()
        if code not in (kind.codes or (None,)) and not self.three_saves_failed(run, code):
            raise Deviation("%s ended the run with %s, promised: %s" % (kind.name, code, kind.codes or "it goes on"))
        if again and code not in RESTARTED:
            raise Deviation("restarted after exit code %d" % code)

    def three_saves_failed(self, run, code):
        return code == 4 and "3 saves in a row failed" in run.output()

    def is_done(self, run):
        return run.newest() == run.steps

    def expect_a_step(self, run):
        new = run.wait_for_a_new_step()
        if new:
            self.print_pending(run, time.monotonic())
        return new

    def print_pending(self, run, first_step=None):
        """Prints the faults since the last new step, which came now or never."""
        for kind, moment, code, seconds, begin in self.pending:
            new = None if first_step is None else first_step - begin
            self.lines.append((kind.name, moment, code, seconds, new))
            words = "exit code %s, %.1f s to stop" % (code, seconds) if isinstance(code, int) else code
            words += ", no new step before the next fault" if new is None else ", %.1f s to the first new step" % new
            print("%4d %s  %s, %s, %s" % (len(self.lines), os.path.basename(run.folder), kind.name, moment, words), flush=True)
        self.pending = []

    # One run.

    def clean(self, family, name):
        run = self.run_of(family, name)
        run.start()
        run.wait(lambda: False, MOST_SECONDS_OF_A_RUN)
        if run.process.poll() != 0:
            raise Deviation("a run without faults failed: " + run.output())
        return run

    def soaked(self, family, name, clean):
        run = self.run_of(family, name)
        while not self.over() and not (not run.alive() and self.is_done(run)):
            try:
                if run.alive() and self.pending:
                    self.expect_a_step(run)
                self.strike(run, self.next_kind(run))
            except Deviation as deviation:
                self.deviates(run, str(deviation))
                run.kill_all()
        self.go_on_to_the_end(run)
        self.compare(run, clean)

    def go_on_to_the_end(self, run):
        if not run.alive():
            run.start()
        try:
            self.expect_a_step(run)
            run.wait(lambda: False, MOST_SECONDS_OF_A_RUN)
            if run.process.poll() != 0:
                raise Deviation("the last start ended with %s" % run.process.poll())
            run.expect_no_process()
        except Deviation as deviation:
            self.deviates(run, str(deviation))
            run.kill_all()
        self.print_pending(run)

    def compare(self, run, clean):
        lines, hashes = run.results()
        clean_lines, clean_hashes = clean.results()
        if lines != clean_lines:
            different = next(pair for pair in zip(lines + [None], clean_lines + [None]) if pair[0] != pair[1])
            self.deviates(run, "records differ from those of a clean run: %s and %s" % different)
        if run.steps not in hashes or any(hashes[step] != clean_hashes.get(step) for step in hashes if step in clean_hashes):
            self.deviates(run, "weights differ: %s and %s" % (hashes, clean_hashes))
        if left := run.temporary_files():
            self.deviates(run, "temporary files are left: %s" % left)
        if gone := [path for path in run.strays if not os.path.exists(path)]:
            self.deviates(run, "files of somebody else are gone: %s" % gone)
        self.expect_flat(run, 0, ranks=False)

    def expect_flat(self, run, warm, ranks=True):
        """Compares the memory and the open files of each process, once it is `warm` (seconds), with those of its last third."""
        for (name, _), samples in run.samples.items():
            samples = [sample for sample in samples if sample[0] - samples[0][0] >= warm]
            third = len(samples) // 3
            if not (ranks or name == "launcher"):
                continue
            if third < 8:
                if ranks:
                    self.deviates(run, "%s has %d samples of memory after %d s, expected 24" % (name, len(samples), warm))
                continue
            for what, column, factor, slack in (("resident KiB", 1, GROWTH, SLACK), ("open files", 2, 1, 0)):
                before, after = (statistics.median(sample[column] for sample in part) for part in (samples[:third], samples[-third:]))
                self.flat.append("%s of %s: %d, then %d" % (what, name if name == "launcher" else "rank %d" % name, before, after))
                if after > factor * before + slack:
                    self.deviates(run, "%s of %s grew from %d to %d in %.0f s" % (what, name, before, after, samples[-1][0] - samples[0][0]))

    def long_run(self, family):
        """One run of many steps and saves without faults, whose memory and files must not grow."""
        run = self.run_of(family, family + "-long")
        run.overrides.append("steps=%d" % MOST_STEPS)
        run.start()
        end = time.monotonic() + self.arguments.long
        run.wait(lambda: time.monotonic() > end, MOST_SECONDS_OF_A_RUN)
        run.process.terminate()
        run.wait(lambda: False)
        if run.process.poll() != 75:
            self.deviates(run, "the long run ended with %s, promised: 75" % run.process.poll())
        measured = len(self.flat)
        self.expect_flat(run, WARM)
        print("%s, %d steps: %s" % (family, run.step(), "; ".join(self.flat[measured:])), flush=True)

    def main(self):
        families, clean, number = self.arguments.families, {}, 0
        while not self.over():
            family = families[number % len(families)]
            if family not in clean:
                clean[family] = self.clean(family, family + "-clean")
            self.soaked(family, "%s-%d" % (family, number), clean[family])
            number += 1
        for family in families if self.arguments.long else []:
            self.long_run(family)
        self.temporary()
        print(self.summary(number, len(clean)))
        return 1 if self.deviations else 0

    def summary(self, runs, families):
        def seconds(values):
            return "median %.1f s, most %.1f s" % (statistics.median(values), max(values)) if values else "none"
        right = sum(1 for rank, _, _, report in self.named if report and report["code"] == 7 and "rank %d" % rank in report["message"])
        return ", ".join([
            "%d faults of %d kinds in %d runs of %d families" % (len(self.lines), len({line[0] for line in self.lines}), runs, families),
            "see the deviations" if self.deviations else "weights and losses equal",
            "to stop: " + seconds([line[3] for line in self.lines if isinstance(line[2], int)]),
            "to the first new step: " + seconds([line[4] for line in self.lines if line[4] is not None]),
            "stopped ranks named: %d of %d, %s" % (right, len(self.named), seconds([named[2] for named in self.named])),
            "%d deviations" % len(self.deviations)])

    def temporary(self):
        """mpirun leaves a folder when it is killed; nothing else may be left."""
        left = [name for name in os.listdir(self.environment["TMPDIR"]) if not name.startswith("ompi.")]
        if left:
            self.deviations.append("temporary files")
            print("DEVIATION: temporary files are left: %s" % left)



def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600, help="no fault comes later; the last run then goes on to its end")
    parser.add_argument("--faults", type=int, default=200, help="the most faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS, help="of each run")
    parser.add_argument("--timeout", type=int, default=10, help="run.timeout: seconds after which the watchdog ends a start or a hang")
    parser.add_argument("--long", type=float, default=60, help="seconds of a run without faults whose memory and files must not grow; 0: none")
    parser.add_argument("--families", type=lambda text: text.split(","), default=["language", "vision", "graph"])
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=list(KINDS), help=", ".join(KINDS))
    parser.add_argument("--launcher", default="tools/strata")
    return parser.parse_args(arguments)


def soak(arguments, environment):
    """Runs a soak, and returns its exit code."""
    if shutil.which("strace") is None:
        raise RuntimeError("the soak needs strace: apt-get install strace")
    # A shell ignores SIGINT in what it starts in the background, and the launcher would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runs = TrainingRuns()
    runs.setUp()
    try:
        temporary = os.path.join(runs.folder, "tmp")
        os.mkdir(temporary)
        return Soak(arguments, runs, os.path.abspath(arguments.launcher), {**environment, "TMPDIR": temporary}).main()
    finally:
        runs.tearDown()


if __name__ == "__main__":
    sys.exit(soak(parse(sys.argv[1:]), dict(os.environ)))
