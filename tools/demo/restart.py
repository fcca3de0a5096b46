# SPDX-License-Identifier: MIT
"""a rank is killed, the run starts again by itself, and ends with the same weights

A run saves checkpoints. With run.restarts the launcher starts it again from the newest one after a failure. This demo
trains a model on two ranks undisturbed. Then it trains the model again, and kills rank 1 with SIGKILL after the first
checkpoint. The last weights must be those of the first run, bit for bit."""
import json
import os
import re
import signal
import time

import findings

READ = "docs/running.md#starting-again-by-itself"
STEPS, EVERY, RANK = 60, 10, 1
SHAPE = ["--ranks", "2", f"steps={STEPS}", f"checkpoint.every={EVERY}"]


def run(lab):
    lab.prepare_text()
    lab.train("unbroken", *SHAPE)
    lab.train("killed", *SHAPE, "run.restarts=1", meanwhile=kill_after_a_checkpoint)


def kill_after_a_checkpoint(lab, launcher):
    """Kills rank 1 of the run as soon as metrics.jsonl has a checkpoint, unless the launcher ends before that."""
    while launcher.poll() is None and time.monotonic() < lab.deadline:
        if os.path.exists(lab.path("killed/metrics.jsonl")) and any("checkpoint" in record for record in lab.metrics("killed")):
            if process := process_of_rank(lab.folder):
                lab.show(f"        kill -KILL {process}, which is rank {RANK}")
                os.kill(process, signal.SIGKILL)
                return
        time.sleep(0.01)


def process_of_rank(folder):
    """Returns the process of this rank that belongs to the demo in the folder, or None."""
    wanted = {f"OMPI_COMM_WORLD_RANK={RANK}".encode(), f"STRATA_DEMO={folder}".encode()}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/environ", "rb") as file:
                variables = set(file.read().split(b"\0"))
            program = os.path.basename(os.readlink(f"/proc/{process}/exe"))
        except OSError:  # the process has ended, or belongs to somebody else
            continue
        if program == "train" and wanted <= variables:
            return int(process)
    return None


def check(results):
    starts = re.findall(r"^strata: exit code (\d+): rank (\d+) was killed .*; restart (\d+) of \d+ .*, from step (\d+)$",
                        results.text("killed.err"), re.MULTILINE)
    once = len(starts) == 1 and starts[0][:3] == ("137", str(RANK), "1") and int(starts[0][3]) in range(EVERY, STEPS, EVERY)
    yield findings.claim("the launcher starts the run again once, from a checkpoint", once,
                         f"exit code 137 of rank {RANK}, and a restart from a step of 10, 20, ...",
                         "; ".join("exit code {} of rank {}, restart {} from step {}".format(*start) for start in starts) or "no restart")
    yield findings.equal("the command ends well: its exit code", 0, results.code("killed"))
    report = json.loads(results.text("killed/error-1.json")) if os.path.exists(results.path("killed/error-1.json")) else {}
    yield findings.equal("error-1.json names the cause: exit code, rank", (137, RANK), (report.get("code"), report.get("rank")))
    yield findings.claim("every step has the loss of the unbroken run, bit for bit", results.steps("killed") == results.steps("unbroken"),
                         f"{STEPS} equal losses", f"{sum(a == b for a, b in zip(results.steps('killed'), results.steps('unbroken')))} equal losses")
    yield findings.equal("SHA-256 of the weights after the last step", results.weights("unbroken").get(STEPS), results.weights("killed").get(STEPS))
