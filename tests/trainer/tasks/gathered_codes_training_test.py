# SPDX-License-Identifier: MIT
"""Runs whose weights travel in 8 bits learn the bits that runs learn whose weights travel in precision.compute."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from training_runs import DEVICE, MOST_RANKS, TrainingRuns  # noqa: E402

COMMON = ["model={type: transformer, family: llama, layers: 3, width: 128, heads: 4, feed_forward: 128, sequence: 12, vocabulary: 37}",
          "precision={compute: bfloat16, linear: {format: fp8}}", "run.deterministic=true", "micro_batch=4", "steps=10"]
if DEVICE == "cuda":
    COMMON.append("kernels.linear=cuda")
TOLD = "all-gathers: 12 weights of 3 layers travel as codes of 8 bits"


class GatheredCodesTrainingTest(TrainingRuns):
    def evaluations(self, run):
        return [line["validation_loss"] for line in self.lines(run) if "validation_loss" in line]

    def expect_same_bits(self, run, *way, ranks):
        """Trains both, with evaluations of moving averages and checkpoints."""
        for gathered in ("codes", "compute"):
            self.train(run + gathered, *COMMON, "optimizer.moving_average=0.9", *way, "sharding.gather_format=" + gathered, ranks=ranks)
            self.assertEqual(TOLD in self.output, gathered == "codes")
        for values in (self.losses, self.hashes, self.evaluations):
            self.assertEqual(values(run + "codes"), values(run + "compute"))
        self.assertEqual(len(self.losses(run + "codes")), 10)
        self.assertGreaterEqual(len(self.evaluations(run + "codes")), 1)

    def test_losses_evaluations_and_weights_are_the_same(self):
        if MOST_RANKS < 2:
            self.skipTest("nothing travels to one rank")
        graphs = ["cuda_graph=on", "cuda_graph=off"] if DEVICE == "cuda" else ["cuda_graph=auto"]
        gather = "sharding.gather=" + ("separate" if DEVICE == "cuda" else "shared")
        for number, graph in enumerate(graphs):
            self.expect_same_bits("full %d " % number, graph, ranks=min(MOST_RANKS, 4))
            self.expect_same_bits("parts %d " % number, graph, gather, "batch=32", "gradient_checkpointing=full", ranks=2)

    def test_of_ranks_that_share_copies(self):
        if MOST_RANKS < 4:
            self.skipTest("needs four ranks")
        self.expect_same_bits("hybrid ", "sharding={strategy: hybrid, shard_ranks: 2}", ranks=4)

    def test_copy_engines_move_codes(self):
        if DEVICE != "cuda":
            self.skipTest("only GPUs have copy engines")
        self.expect_same_bits("copied ", "sharding.gather=copy_engines", ranks=2)

    def test_a_checkpoint_has_no_codes(self):
        """A run resumes without them and with them."""
        self.train("whole", *COMMON)
        for first, second in (("codes", "compute"), ("compute", "codes")):
            self.train(first, *COMMON, "run.stop_after=5", "sharding.gather_format=" + first)
            self.train(first, *COMMON, "sharding.gather_format=" + second)
            self.assertIn("resumed from step 5", self.output)
            self.assertEqual(self.losses(first), self.losses("whole"))
            self.assertEqual(self.hashes(first)[10], self.hashes("whole")[10])

    def test_refused(self):
        self.train("refused", "sharding.gather_format=fp8", expect=2)
        self.assertIn("expected compute or codes, got 'fp8'", self.output + self.errors)


if __name__ == "__main__":
    unittest.main()
