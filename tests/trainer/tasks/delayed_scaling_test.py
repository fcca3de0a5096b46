# SPDX-License-Identifier: MIT
"""Runs with delayed scales: their histories are those of plain lists, and are saved, resumed and carried to other ranks bit for bit."""

import os
import sys
import unittest

import numpy
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from training_runs import DEVICE, TrainingRuns  # noqa: E402

HISTORY, STEPS = 4, 12
# Widths are multiples of 16, so that level cuda multiplies in FP8.
MODEL = ["model.width=32", "model.heads=4", "model.key_value_heads=0", "model.feed_forward=48", "model.layers=2", "evaluation={every: 0, tokens: 0}"]
DELAYED = [*MODEL, "precision.linear={format: fp8, scaling: delayed, history: %d}" % HISTORY]
if DEVICE == "cuda":
    DELAYED.append("kernels.linear=cuda")
EVERY_STEP = "checkpoint={every: 1, keep: 100}"
X, WEIGHT, GRADIENT = range(3)


class DelayedScalingTest(TrainingRuns):
    def saved(self, run, step, rank=0):
        return load_file(self.path(run, "checkpoints/step-%08d/rank-%05d.safetensors" % (step, rank)))

    def histories(self, run, step):
        """The histories of all modules after a step: [3, HISTORY], newest first."""
        suffix = "/amax_history"
        return {name[:-len(suffix)]: value.reshape(3, -1) for name, value in self.saved(run, step).items() if name.endswith(suffix)}

    def expect_same_histories(self, run, reference, step):
        found, wanted = self.histories(run, step), self.histories(reference, step)
        self.assertEqual(len(wanted), 8)
        self.assertEqual(set(found), set(wanted))
        for module, history in found.items():
            numpy.testing.assert_array_equal(history, wanted[module], "%s of %s" % (module, run))

    def expect_same_run(self, run, reference, step):
        self.assertEqual(self.losses(run), self.losses(reference), run)
        self.assertEqual(self.hashes(run)[step], self.hashes(reference)[step], run)
        self.expect_same_histories(run, reference, step)

    def test_histories_are_those_of_plain_lists(self):
        """Each step puts one number before those of the steps before. That of a weight is the largest of the weights that the step began with."""
        self.train("run", *DELAYED, EVERY_STEP, "steps=%d" % STEPS, "model.dropout=0.1", ranks=1)
        before = {module: numpy.zeros((3, HISTORY), numpy.float32) for module in self.histories("run", 1)}
        for step in range(1, STEPS + 1):
            masters = self.saved("run", step - 1) if step > 1 else None
            for module, history in self.histories("run", step).items():
                self.assertEqual(history.shape, (3, HISTORY))
                numpy.testing.assert_array_equal(history[:, 1:], before[module][:, :-1], "%s in step %d" % (module, step))
                self.assertTrue((history[:, 0] > 0).all(), "%s in step %d: %s" % (module, step, history))
                if masters is not None:
                    self.assertEqual(history[WEIGHT, 0], abs(masters[module + ".weight/master"]).max(), "%s in step %d" % (module, step))
                before[module] = history
        for module, history in before.items():
            for operand in (X, WEIGHT, GRADIENT):
                self.assertEqual(len(set(history[operand])), HISTORY, module)

    def test_the_scales_change_what_is_computed(self):
        """The first step has the scales of current scaling, and later ones have other scales."""
        self.train("delayed", *DELAYED, "steps=4", ranks=1)
        self.train("current", *[text.replace("scaling: delayed, history: %d" % HISTORY, "scaling: current") for text in DELAYED], "steps=4", ranks=1)
        self.train("long", *[text.replace("history: %d" % HISTORY, "history: 1") for text in DELAYED], "steps=4", ranks=1)
        self.assertEqual(self.losses("delayed")[0], self.losses("current")[0])
        self.assertEqual(self.losses("delayed")[:2], self.losses("long")[:2])
        self.assertNotEqual(self.losses("delayed")[1:], self.losses("current")[1:])
        self.assertNotEqual(self.losses("delayed"), self.losses("long"))

    def test_a_resumed_run_is_the_whole_run(self):
        for ranks in self.some_ranks(1, 2):
            whole, parts = "whole %d" % ranks, "parts %d" % ranks
            self.train(whole, *DELAYED, "steps=7", "checkpoint.every=7", ranks=ranks)
            for last in (1, 3, 7):
                self.train(parts, *DELAYED, "steps=7", "checkpoint.every=7", "run.stop_after=%d" % last, ranks=ranks)
            self.expect_same_run(parts, whole, 7)

    def test_histories_go_to_other_ranks(self):
        """Ranks 1, 2, 3 and 2 in turn train a run. A start that trains no step saves what it has read."""
        counts = self.some_ranks(1, 2, 3, 2)
        for last, ranks in enumerate(counts, 1):
            self.train("run", *DELAYED, "steps=10", EVERY_STEP, "run.stop_after=%d" % last, ranks=ranks, batch=48)
            if last == 1:
                continue
            self.assertIn("resumed from step %d" % (last - 1), self.output)
            older, newer = self.histories("run", last - 1), self.histories("run", last)
            self.assertEqual(set(older), set(newer))
            for module, history in newer.items():
                numpy.testing.assert_array_equal(history[:, 1:], older[module][:, :-1], "%s on %d ranks" % (module, ranks))
        for rank in range(1, counts[-1]):
            self.assertFalse([name for name in self.saved("run", len(counts), rank) if name.endswith("/amax_history")])

    def test_ranks_have_the_same_histories(self):
        """The largest number of all ranks is that of one rank with all samples. Sums over ranks have another order, so later steps differ by roundings."""
        for ranks in self.some_ranks(1, 2, 3):
            run = "on %d" % ranks
            self.train(run, *DELAYED, "steps=4", EVERY_STEP, ranks=ranks, batch=48)
            one, other = self.histories("on 1", 1), self.histories(run, 1)
            for module, history in other.items():
                numpy.testing.assert_allclose(history[:, 0], one[module][:, 0], rtol=1e-5, err_msg=module)
                numpy.testing.assert_array_equal(history[WEIGHT], one[module][WEIGHT])
            for a, b in zip(self.losses("on 1"), self.losses(run), strict=True):
                self.assertLess(abs(b - a), 1e-3 * a)

    def test_layers_are_recomputed_with_the_same_scales(self):
        for family in ("llama", "gpt2"):
            runs = ["%s %s" % (family, way) for way in ("none", "selective", "full")]
            for run in runs:
                self.train(run, *DELAYED, "steps=6", "model.family=" + family, "model.dropout=0.1", "gradient_checkpointing=" + run.split()[-1], ranks=1)
                self.expect_same_run(run, runs[0], 6)

    def test_micro_batches_of_a_step_are_one_entry(self):
        """Two micro-batches of 8 samples have the largest numbers of one of 16."""
        for run, micro_batch in (("one", 16), ("two", 8), ("four", 4)):
            self.train(run, *DELAYED, "micro_batch=%d" % micro_batch, "steps=4", EVERY_STEP, "model.dropout=0", ranks=1)
            for module, history in self.histories(run, 1).items():
                self.assertTrue((history[:, 0] > 0).all() and (history[:, 1:] == 0).all(), module)
                one = self.histories("one", 1)[module]
                numpy.testing.assert_array_equal(history[WEIGHT], one[WEIGHT])
                # Without a history each micro-batch has its own scales, so what comes from products of such numbers differs a little.
                numpy.testing.assert_allclose(history[:, 0], one[:, 0], rtol=0.1, err_msg=module)

    def test_evaluations_record_nothing(self):
        self.train("without", *DELAYED, "steps=6")
        self.train("with", *DELAYED, "steps=6", "evaluation={every: 1, tokens: 240}")
        self.expect_same_run("with", "without", 6)
        self.assertEqual(len([line for line in self.lines("with") if "validation_loss" in line]), 6)

    def test_steps_that_are_skipped_leave_the_histories(self):
        """The loss scale of float16 is too large at first. Its steps are skipped, and their gradients are infinite."""
        self.train("run", *DELAYED, "precision.compute=float16", "precision.loss_scaling={initial: 1e9}", EVERY_STEP, "steps=20", ranks=1)
        skipped = [line["step"] for line in self.lines("run") if line.get("skipped")]
        self.assertTrue(skipped and skipped[-1] < 20, skipped)
        for step in range(1, 21):
            for module, history in self.histories("run", step).items():
                self.assertTrue(numpy.isfinite(history).all(), "%s in step %d" % (module, step))
                if step in skipped:
                    before = self.histories("run", step - 1)[module] if step > 1 else 0
                    numpy.testing.assert_array_equal(history, before + numpy.zeros_like(history))

    def test_captured_steps_have_the_same_bits(self):
        if DEVICE != "cuda":
            self.skipTest("steps are captured on GPUs")
        for run in ("off", "on"):
            self.train(run, *DELAYED, "steps=12", "precision.compute=bfloat16", "cuda_graph=" + run, ranks=1)
        self.expect_same_run("on", "off", 12)


if __name__ == "__main__":
    unittest.main()
