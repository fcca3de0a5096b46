# SPDX-License-Identifier: MIT
"""Ranks that hold the same weights compare them: a flipped bit ends the run and names the rank, and clean runs go on."""

import os
import unittest

from training_runs import FAMILIES, TrainingRuns

FAULTS = {"STRATA_FAULTS": "1"}
NONE = ["sharding.strategy=none"]
HYBRID = ["sharding={strategy: hybrid, shard_ranks: 2}"]
SHORT = ["steps=20", "evaluation.every=0"]


class ReplicaTrainingTest(TrainingRuns):
    def flip(self, run, what, *overrides, rank, step=6, ranks, **options):
        """Trains with a bit that flips in this step on this rank."""
        self.train(run, *SHORT, "fault={at: step %d rank %d layer 1, kind: flip_%s}" % (step, rank, what), *overrides, ranks=ranks,
                   batch=8 * ranks, environment=FAULTS, **options)

    def saved(self, run):
        folder = self.path(run, "checkpoints")
        return sorted(name for name in os.listdir(folder) if name.startswith("step-")) if os.path.isdir(folder) else []

    def test_a_flipped_bit_is_found_at_the_next_comparison(self):
        for what in ("weight", "reduced_gradient"):
            for strategy, overrides, ranks, rank, words in (
                    ("none", NONE, 3, 1, "rank 1 differs from ranks 0 and 2\n"),
                    ("hybrid", HYBRID, 4, 3, "no majority says who is right: rank 1; rank 3\n")):
                with self.subTest(what + " " + strategy):
                    run = what + "_" + strategy
                    self.flip(run, what, *overrides, "sharding.compare_replicas_every=4", "checkpoint.every=0", ranks=ranks, rank=rank, expect=5)
                    error = self.error(run)
                    self.assertEqual(error["code"], 5)
                    self.assertIn("differ after step 8; after step 4 they were equal:\n  " + words, error["message"])
                    self.assertIn("tools/strata replay %s --step 9'" % self.path(run), error["message"])
                    self.assertEqual(self.saved(run), [])

    def test_no_checkpoint_holds_what_only_one_rank_has(self):
        self.train("clean", *SHORT, *NONE, ranks=3, batch=24)
        self.flip("flipped", "weight", *NONE, ranks=3, rank=0, expect=5)
        self.assertIn("differ after step 10; after step 5 they were equal:\n  rank 0 differs from ranks 1 and 2\n", self.error("flipped")["message"])
        self.assertEqual(self.saved("flipped"), ["step-00000005"])
        self.train("flipped", *SHORT, *NONE, ranks=3, batch=24)
        self.assertIn("resumed from step 5", self.output)
        self.assertEqual(self.hashes("flipped"), self.hashes("clean"))
        self.assertEqual(self.losses("flipped"), self.losses("clean"))
        self.flip("last", "reduced_gradient", *NONE, "checkpoint.every=0", ranks=3, rank=2, step=20, expect=5)
        self.assertIn("differ after step 20; after step 0 they were equal:\n  rank 2 differs", self.error("last")["message"])
        self.assertEqual(self.saved("last"), [])

    def test_what_is_not_compared_is_not_found(self):
        self.flip("before_the_sum", "activation", *NONE, "sharding.compare_replicas_every=1", ranks=2, rank=1)
        self.flip("never", "weight", *NONE, "sharding.compare_replicas_every=0", ranks=2, rank=1)
        self.flip("sharded", "weight", "sharding.compare_replicas_every=1", ranks=2, rank=1)

    def test_a_thousand_clean_steps_give_no_alarm(self):
        tiny = [text.format(data=self.data) for text in FAMILIES["vision"]] + [
            "steps=1000", "log.every=100", "evaluation={every: 250, tokens: 0}", "checkpoint.every=100", "sharding.compare_replicas_every=1"]
        self.train("none", *tiny, *NONE)
        self.train("hybrid", *tiny, *HYBRID, "steps=100", ranks=4, batch=32)
        self.train("mixed", *tiny, *NONE, "steps=100", "precision={compute: bfloat16, reduce: bfloat16}")


if __name__ == "__main__":
    unittest.main()
