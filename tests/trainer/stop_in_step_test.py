# SPDX-License-Identifier: MIT
"""A stop request in the middle of a step: the step itself carries it to all ranks, so the run saves after this step, on GPUs
after the next one, which is queued by then."""

import os
import signal
import time
import unittest

from training_runs import DEVICE, MOST_RANKS, TrainingRuns, rank_processes

RANKS = min(MOST_RANKS, 2) if DEVICE == "cpu" else MOST_RANKS
MICRO_BATCH = 8 if DEVICE == "cpu" else 4096
MICRO_BATCHES = 120 if DEVICE == "cpu" else 1
# A step takes half a second or more.
LONG_STEPS = ["steps=1000", "schedule={type: constant}", "checkpoint.every=0", "evaluation.every=0", "micro_batch=%d" % MICRO_BATCH]
if DEVICE == "cuda":
    LONG_STEPS += ["model.width=2048", "model.heads=16", "model.feed_forward=4096", "precision={compute: float32, reduce: float32}"]
QUEUED = 1 if DEVICE == "cuda" else 0  # steps that the host has queued behind the one that the GPU computes


class StopInStepTest(TrainingRuns):
    def ask_in_a_step(self, run, number, *overrides, after=1, ranks=RANKS):
        """Asks the last rank during the step that follows at least `after` steps. Returns how many steps were done by then, and in all."""
        process = self.start(run, *LONG_STEPS, *overrides, ranks=ranks, batch=MICRO_BATCH * MICRO_BATCHES * ranks)
        self.wait_for(process, run, lambda: len(self.losses(run)) >= after)
        done = len(self.losses(run))
        time.sleep(0.1)  # the step is under way, and the next one is queued if there is a queue
        os.kill(rank_processes(process.pid)[ranks - 1], number)
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 75, output + errors)
        last = len(self.losses(run))
        self.assertEqual(sorted(os.listdir(self.path(run, "checkpoints"))), ["latest", "step-%08d" % last])
        return done, last

    def test_the_step_under_way_carries_the_request(self):
        for number in (signal.SIGTERM, signal.SIGUSR1):
            done, last = self.ask_in_a_step(number.name, number, *(["cuda_graph=off"] if DEVICE == "cuda" else []))
            self.assertEqual(last, done + 1 + QUEUED)

    def test_one_rank(self):
        done, last = self.ask_in_a_step("alone", signal.SIGTERM, ranks=1)
        self.assertEqual(last, done + 1 + QUEUED)

    @unittest.skipUnless(DEVICE == "cuda", "needs STRATA_TEST_DEVICE=cuda and GPUs: only their steps are captured")
    def test_a_captured_step_carries_the_request(self):
        done, last = self.ask_in_a_step("captured", signal.SIGTERM, "cuda_graph=on", after=6)
        self.assertEqual(last, done + 1 + QUEUED)


if __name__ == "__main__":
    unittest.main()
