# SPDX-License-Identifier: MIT
"""Compares real runs: of one seed they are equal bit for bit, of two seeds they part at the first step."""
import os
import subprocess
import sys
import unittest

sys.path[:0] = ["tests/trainer", os.path.dirname(os.path.abspath(__file__))]

from command import MAIN  # noqa: E402
from training_runs import TrainingRuns  # noqa: E402

LAST = "checkpoints/step-00000020"


class ComparedTrainingTest(TrainingRuns):
    def compare(self, *arguments, expect):
        done = subprocess.run([sys.executable, MAIN, *arguments], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (expect, ""), done.stdout)
        return done.stdout

    def test_seeds(self):
        for run, seed in (("first", 1), ("same", 1), ("other", 2)):
            self.train(run, f"run.seed={seed}", ranks=1)
        said = self.compare(self.path("first"), self.path("same"), "--only", "losses", expect=0)
        self.assertIn("configuration: equal\nlosses: equal bit for bit, as gradient norms and hashes of weights are, in 20 common steps\n", said)
        self.assertTrue(said.endswith("verdict: equal\n"), said)
        said = self.compare(self.path("first"), self.path("other"), "--only", "losses", expect=1)
        for words in ("configuration: 1 keys differ (A, B):\n   run.seed: 1, 2\nlosses: part at step 1 (A, B: ", "gradient norms: part at step 1 ",
                      "weights: part at step 0\n"):
            self.assertIn(words, said)
        self.assertIn(" tensors are equal bit for bit, 0 are not\n", self.compare(self.path("first", LAST), self.path("same", LAST), expect=0))
        self.assertIn("embedding.weight/master: ", self.compare(self.path("first", LAST), self.path("other", LAST), expect=1))

    def test_a_resumed_run(self):
        self.train("whole", ranks=1)
        self.train("resumed", "run.stop_after=7", ranks=1)
        self.train("resumed", ranks=1)
        self.assertIn("in 20 common steps", self.compare(self.path("whole"), self.path("resumed"), "--only", "losses", expect=0))
        # Each of the two starts has a warm-up of its own.
        said = self.compare(self.path("whole"), self.path("resumed"), "--warm-up", "3", expect=8)
        self.assertIn("times: undecided: 14 steps that both have after 3 of warm-up", said)


if __name__ == "__main__":
    unittest.main()
