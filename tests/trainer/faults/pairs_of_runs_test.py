# SPDX-License-Identifier: MIT
"""Two runs that start at once in one folder, again and again: one trains and the other is refused. Together the runs that
trained are one run without interruption."""

import os
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, "tests/trainer")
from training_runs import SECONDS, TrainingRuns, expect_fault, rank_processes  # noqa: E402

PAIRS = {1: 200, 2: 20} if os.environ.get("STRATA_TEST_ALL") else {1: 4, 2: 1}  # by ranks
ENDLESS = ["steps=1000000", "schedule={type: constant}", "evaluation={every: 0, tokens: 0}", "checkpoint.every=50"]
SLOW = ["fault={at: step 1 rank 0, kind: slow}"]  # so that few steps are trained before the other run is refused
FILES = [".lock", "checkpoints", "kernels.txt", "ledger", "memory.txt", "metrics.jsonl", "resolved.yaml"]


class PairsOfRunsTest(TrainingRuns):
    def wait(self, ready):
        end = time.monotonic() + SECONDS
        while not ready():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def pair(self, run, ranks):
        """Starts two runs at once, and asks the one that trains to stop when the other has ended."""
        known = len(self.losses(run)) if os.path.exists(self.path(run, "metrics.jsonl")) else 0
        both = [self.start(run, *ENDLESS, *SLOW, ranks=ranks, environment={"STRATA_FAULTS": "1"}) for _ in range(2)]
        try:
            self.wait(lambda: any(process.poll() is not None for process in both))
            refused, trains = sorted(both, key=lambda process: process.poll() is None)
            output, errors = refused.communicate(timeout=SECONDS)
            expect_fault(self, "two runs in one folder", 4, refused.returncode, output + errors)
            self.assertIsNone(trains.poll(), "no run trains")
            self.wait(lambda: rank_processes(trains.pid))
            holder = rank_processes(trains.pid)[0]
            said = re.findall(r"run\.folder %s: is in use by another run, process (\d+) on \S+" % re.escape(self.path(run)), errors)
            self.assertEqual(set(said), {str(holder)}, errors)  # each rank may say it
            self.wait_for(trains, run, lambda: len(self.losses(run)) > known)
            os.kill(holder, signal.SIGUSR1)
            output, errors = trains.communicate(timeout=SECONDS)
            self.assertEqual(trains.returncode, 75, output + errors)
        finally:
            for process in both:
                if process.poll() is None:
                    process.terminate()  # mpirun ends its ranks
                    process.communicate(timeout=SECONDS)

    def test_one_of_two_runs_trains(self):
        for ranks, pairs in PAIRS.items():
            with self.subTest(ranks=ranks):
                run = "run%d" % ranks
                for _ in range(pairs):
                    self.pair(run, ranks)
                    files = sorted(os.listdir(self.path(run)))
                    self.assertEqual([name for name in files if not name.startswith("events.out.")], FILES)
                steps = [line["step"] for line in self.lines(run) if "loss" in line]
                self.assertEqual(steps, list(range(1, len(steps) + 1)), "a step is missing or was trained twice")
                self.train("whole%d" % ranks, *ENDLESS, "run.stop_after=%d" % steps[-1], ranks=ranks)
                self.assertEqual(self.losses(run), self.losses("whole%d" % ranks))
                self.assertEqual(self.hashes(run)[steps[-1]], self.hashes("whole%d" % ranks)[steps[-1]])
                self.assertEqual(len(os.listdir(self.path(run, "checkpoints"))), min(3, 1 + pairs))


if __name__ == "__main__":
    unittest.main()
