# SPDX-License-Identifier: MIT
"""Checks that a run which this machine cannot execute is refused before anything is written."""

import os
import unittest

from training_runs import TrainingRuns

# 400 TB of embedding are more than any process can address.
HUGE = "model={type: transformer, family: gpt2, layers: 1, width: 1000000, heads: 1, sequence: 12, vocabulary: 100000000}"


class RefusedStartTest(TrainingRuns):
    def refused(self, run, code, *overrides, ranks=1):
        self.train(run, *overrides, ranks=ranks, expect=code, device="cpu")
        return self.errors

    def test_levels_that_are_not_there(self):
        for ranks in (1, 2):
            errors = self.refused("level", 2, "kernels.default=triton", ranks=ranks)
            self.assertIn("override 'kernels.default=triton': kernels.default: cross_entropy has no kernel at level triton on cpu", errors)
            self.assertFalse(os.path.exists(self.path("level")))

    def test_memory_that_no_host_has(self):
        errors = self.refused("huge", 6, HUGE)
        self.assertIn("the host has no memory left: you tried to allocate ", errors)
        self.assertIn("a smaller micro_batch and more ranks need less", errors)
        self.assertEqual(self.error("huge")["code"], 6)


if __name__ == "__main__":
    unittest.main()
