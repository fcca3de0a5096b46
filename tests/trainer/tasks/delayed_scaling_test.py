# SPDX-License-Identifier: MIT
"""Runs with delayed scales: their histories are those of plain lists, and are saved, resumed and carried to other ranks bit for bit."""

import glob
import os
import sys
import unittest

import numpy
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from training_runs import DEVICE, MOST_RANKS, TrainingRuns  # noqa: E402

HISTORY, STEPS = 4, 6
RANKS = min(2, MOST_RANKS)
# Widths are multiples of 16, so that level cuda multiplies in FP8.
MODEL = ["model.width=32", "model.heads=4", "model.key_value_heads=0", "model.feed_forward=48", "model.layers=2", "evaluation={every: 0, tokens: 0}",
         "checkpoint={every: 1, keep: 100}", "steps=%d" % STEPS] + (["kernels.linear=cuda"] if DEVICE == "cuda" else [])
WEIGHT = 1  # of the operands: inputs, weight, gradients of outputs
SUFFIX = "/amax_history"


def scaling(words):
    return "precision.linear={format: fp8, scaling: %s}" % words


DELAYED = [*MODEL, scaling("delayed, history: %d" % HISTORY)]


def place(update, history=HISTORY):
    """The place of an update (1, 2, ...) in a history."""
    return (update - 1) % history


class DelayedScalingTest(TrainingRuns):
    def saved(self, run, step):
        """What each rank has saved after a step."""
        return [load_file(path) for path in sorted(glob.glob(self.path(run, "checkpoints/step-%08d/rank-*.safetensors" % step)))]

    def histories(self, run, step, history=HISTORY):
        """The histories of all modules after a step: [3, history]."""
        ranks = self.saved(run, step)
        self.assertFalse([name for rank in ranks[1:] for name in rank if name.endswith(SUFFIX)], "one rank saves them")
        found = {name[:-len(SUFFIX)]: value.reshape(3, history) for name, value in ranks[0].items() if name.endswith(SUFFIX)}
        self.assertEqual(len(found), 8)
        return found

    def expect_same_run(self, run, reference):
        self.assertEqual(self.losses(run), self.losses(reference), run)
        self.assertEqual(self.hashes(run)[STEPS], self.hashes(reference)[STEPS], run)
        wanted = self.histories(reference, STEPS)
        for module, found in self.histories(run, STEPS).items():
            numpy.testing.assert_array_equal(found, wanted[module], "%s of %s" % (module, run))

    def expect_plain_lists(self, run, history):
        """Each step replaces the oldest number. That of a weight is the largest of the weights that the step began with."""
        before = {module: numpy.zeros((3, history), numpy.float32) for module in self.histories(run, 1, history)}
        for step in range(1, STEPS + 1):
            masters = self.saved(run, step - 1) if step > 1 else []
            for module, found in self.histories(run, step, history).items():
                new = found[:, place(step, history)]
                self.assertTrue((new > 0).all() and numpy.isfinite(new).all(), "%s in step %d: %s" % (module, step, found))
                before[module][:, place(step, history)] = new
                numpy.testing.assert_array_equal(found, before[module], "%s in step %d" % (module, step))
                largest = [abs(rank[module + ".weight/master"]).max() for rank in masters if rank.get(module + ".weight/master", numpy.zeros(0)).size]
                if largest:
                    self.assertEqual(new[WEIGHT], max(largest), "%s in step %d" % (module, step))

    def test_histories_are_a_part_of_the_run(self):
        whole = [*DELAYED, "model.dropout=0.1"]
        self.train("whole", *whole, ranks=RANKS)
        self.expect_plain_lists("whole", HISTORY)
        with self.subTest("a run that is resumed after 3 steps, and evaluations, which record nothing"):
            self.train("parts", *whole, "run.stop_after=3", ranks=RANKS)
            self.train("parts", *whole, "evaluation={every: 1, tokens: 240}", ranks=RANKS)
            self.assertIn("resumed from step 3", self.output)
            self.assertEqual(len([line for line in self.lines("parts") if "validation_loss" in line]), 4)  # of steps 4 to 6, and the last one
            self.expect_same_run("parts", "whole")
        for way in ("selective", "full"):
            with self.subTest("layers are recomputed with the same scales", way=way):
                self.train(way, *whole, "gradient_checkpointing=" + way, ranks=RANKS)
                self.expect_same_run(way, "whole")
        with self.subTest("a rollback takes what its step recorded away"):
            fault = ["fault={at: step 5 rank 0, kind: nan}", "run.on_nonfinite=rollback"]
            self.train("rolled", *whole, *fault, ranks=RANKS, environment={"STRATA_FAULTS": "1"})
            self.assertEqual([(line["step"], line["rollback"]) for line in self.lines("rolled") if "rollback" in line], [(4, 5)])
            self.expect_same_run("rolled", "whole")
        with self.subTest("replicas hold the same, and have the largest numbers of all ranks"):
            self.train("replicas", *whole, "sharding={strategy: none, compare_replicas_every: 1}", ranks=RANKS)
            wanted = self.histories("whole", 1)
            for module, found in self.histories("replicas", 1).items():
                numpy.testing.assert_array_equal(found[WEIGHT], wanted[module][WEIGHT])
                numpy.testing.assert_allclose(found, wanted[module], rtol=1e-5, err_msg=module)
            self.expect_same_losses("replicas", "whole")
        with self.subTest("the first step has the scales of current scaling, and later ones those of the history"):
            self.train("current", *MODEL, scaling("current"), "model.dropout=0.1", ranks=RANKS)
            self.train("one step", *MODEL, scaling("delayed, history: 1"), "model.dropout=0.1", ranks=RANKS)
            self.expect_plain_lists("one step", 1)
            losses, current, one = (self.losses(run) for run in ("whole", "current", "one step"))
            self.assertEqual(losses[0], current[0])
            self.assertEqual(losses[:2], one[:2])
            self.assertNotEqual(losses[1:], current[1:])
            self.assertNotEqual(losses[2:], one[2:])

    def test_histories_go_to_other_ranks_and_shardings(self):
        """The micro-batches of a step are one entry, however many there are, and so are the ranks."""
        ways = [(1, []), (4, ["sharding={strategy: hybrid, shard_ranks: 2}"]), (2, ["sharding.strategy=none"]), (2, ["sharding.sequence=2"])]
        before = None
        for step, (ranks, sharding) in enumerate([way for way in ways if way[0] <= MOST_RANKS], 1):
            self.train("run", *DELAYED, *sharding, "micro_batch=4", "run.stop_after=%d" % step, ranks=ranks, batch=32)
            found = self.histories("run", step)
            for module, history in found.items():
                self.assertTrue((history[:, :step] > 0).all() and (history[:, step:] == 0).all(), "%s on %d ranks: %s" % (module, ranks, history))
                if before is not None:
                    numpy.testing.assert_array_equal(history[:, :step - 1], before[module][:, :step - 1], "%s on %d ranks" % (module, ranks))
            before = found

    def test_steps_that_are_skipped_leave_the_histories(self):
        """The loss scale of float16 is too large at first. Its steps are skipped, and their gradients are infinite."""
        self.train("run", *DELAYED, "precision.compute=float16", "precision.loss_scaling={initial: 1e8}", "steps=16", ranks=1)
        skipped = [line["step"] for line in self.lines("run") if line.get("skipped")]
        self.assertTrue(skipped and skipped[-1] < 16, skipped)
        updates = 0
        before = {module: numpy.zeros((3, HISTORY), numpy.float32) for module in self.histories("run", 1)}
        for step in range(1, 17):
            updates += step not in skipped
            for module, found in self.histories("run", step).items():
                if step not in skipped:
                    before[module][:, place(updates)] = found[:, place(updates)]
                numpy.testing.assert_array_equal(found, before[module], "%s in step %d" % (module, step))
                self.assertTrue(numpy.isfinite(found).all())

    def test_captured_steps_have_the_same_bits(self):
        if DEVICE != "cuda":
            self.skipTest("steps are captured on GPUs")
        for run in ("off", "on"):
            self.train(run, *DELAYED, "precision.compute=bfloat16", "cuda_graph=" + run, ranks=1)
        self.expect_same_run("on", "off")


if __name__ == "__main__":
    unittest.main()
