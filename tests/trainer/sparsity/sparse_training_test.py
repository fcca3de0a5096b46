# SPDX-License-Identifier: MIT
"""Runs with 2:4 sparsity learn, repeat their bits, and mean the same on any number of ranks and micro-batches."""

import os
import subprocess
import sys
import unittest

import numpy
from safetensors.numpy import load_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from training_runs import SECONDS, TrainingRuns  # noqa: E402

EXPORT = os.environ.get("STRATA_TEST_EXPORT") or os.path.abspath("tools/weights/export")
GENERATE = os.environ.get("STRATA_TEST_GENERATE") or os.path.abspath("tools/generation/generate")
MODEL = ["model.feed_forward=44", "model.dropout=0", "optimizer.learning_rate=4e-3"]
SPARSE = [*MODEL, "sparsity={pattern: 2:4, only: mlp}"]
# The decay is most of the gradient, and no gradient is clipped.
DECAYED = [*MODEL, "sparsity={pattern: 2:4, only: mlp, decay: 100}", "optimizer.gradient_clip=0", "steps=3", "schedule.warmup=0"]


def is_pruned(name):
    return ".mlp." in name and name.endswith(".weight")


class SparseTrainingTest(TrainingRuns):
    def exported(self, run, *options, to=None):
        folder = self.path(to or run + "-exported")
        self.run_program(EXPORT, self.path(run), folder, *options)
        return load_file(folder + "/model.safetensors")

    def sample(self, run):
        command = [GENERATE, self.path(run), "--prompt-ids", "3", "1", "4", "--tokens", "9", "--temperature", "2", "--device", "cpu"]
        outputs = []
        for seed in range(6):
            done = subprocess.run([*command, "--seed", str(seed)], capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            outputs.append(done.stdout)
        return outputs

    def masters(self, run, step):
        """The weights of a checkpoint that one rank wrote."""
        saved = load_file(self.path(run, "checkpoints/step-%08d/rank-00000.safetensors" % step))
        return {name[:-len("/master")]: value for name, value in saved.items() if name.endswith("/master")}  # flat

    def first_norm(self, run):
        return next(line["gradient_norm"] for line in self.lines(run) if "gradient_norm" in line)

    def test_learns_and_prunes_what_it_exports(self):
        for run, overrides in (("dense", MODEL), ("sparse", SPARSE)):
            self.train(run, *overrides, "steps=60", "checkpoint.every=60", ranks=1)
        dense, sparse = self.losses("dense"), self.losses("sparse")
        self.assertNotEqual(sparse[0], dense[0])
        self.assertGreater(dense[0] - dense[-1], 0.5)
        self.assertGreater(sparse[0] - sparse[-1], 0.75 * (dense[0] - dense[-1]))
        masters, exported = self.masters("sparse", 60), self.exported("sparse")
        self.assertEqual(set(exported), set(masters))
        for name, value in exported.items():
            if not is_pruned(name):
                numpy.testing.assert_array_equal(value.ravel(), masters[name].ravel())
                continue
            groups, before = value.reshape(-1, 4), masters[name].reshape(-1, 4)
            self.assertTrue((numpy.count_nonzero(before, axis=1) == 4).all(), name)
            self.assertTrue((numpy.count_nonzero(groups, axis=1) == 2).all(), name)
            numpy.testing.assert_array_equal(groups[groups != 0], before[groups != 0])
            largest_pruned = numpy.where(groups == 0, abs(before), 0).max(axis=1)
            self.assertTrue((largest_pruned <= numpy.where(groups == 0, numpy.inf, abs(before)).min(axis=1)).all(), name)

    def test_a_transposable_mask_prunes_rows_and_columns(self):
        options = [*MODEL, "sparsity={pattern: 2:4, mask: transposable, only: mlp}", "steps=60", "checkpoint.every=60"]
        self.train("dense", *MODEL, "steps=60", ranks=1)
        self.train("tiles", *options, ranks=1)
        dense, tiles = self.losses("dense"), self.losses("tiles")
        self.assertGreater(tiles[0] - tiles[-1], 0.7 * (dense[0] - dense[-1]))
        for name, value in self.exported("tiles").items():
            if is_pruned(name):
                zeros = value.reshape(value.shape[0] // 4, 4, value.shape[1] // 4, 4) == 0
                self.assertTrue((zeros.sum(axis=1) == 2).all() and (zeros.sum(axis=3) == 2).all(), name)
        # Replicas have whole weights, and sharded ranks have no decay.
        short = [*MODEL, "sparsity={pattern: 2:4, mask: transposable, only: mlp, decay: %s}", "steps=4", "schedule.warmup=0"]
        for decay, strategy in (("100", "none"), ("0", "full")):
            overrides = [text % decay if "%s" in text else text for text in short] + ["sharding.strategy=" + strategy]
            for ranks in (1, 2):
                self.train("%s on %d" % (strategy, ranks), *overrides, ranks=ranks)
            self.expect_same_losses(strategy + " on 2", strategy + " on 1")

    def test_evaluations_and_samples_prune(self):
        """A dense run from the exported weights has the validation loss and the samples of the sparse run."""
        self.train("sparse", *SPARSE, "steps=20")
        self.exported("sparse")
        still = [*MODEL, "optimizer.learning_rate=1e-30", "optimizer.weight_decay=0", "steps=1", "schedule={type: constant}"]
        self.train("pruned", *still, "checkpoint.initial_weights=" + self.path("sparse-exported"))
        # Without its configuration, nobody knows that the weights were pruned.
        os.rename(self.path("sparse", "resolved.yaml"), self.path("resolved.yaml"))
        self.exported("sparse", "--format", "strata", to="dense-exported")
        os.rename(self.path("resolved.yaml"), self.path("sparse", "resolved.yaml"))
        self.train("dense", *still, "checkpoint.initial_weights=" + self.path("dense-exported"))
        found = [[line["validation_loss"] for line in self.lines(run) if "validation_loss" in line] for run in ("sparse", "pruned", "dense")]
        sparse, pruned, dense = (losses[-1] for losses in found)
        self.assertLess(abs(sparse - pruned), 1e-6 * pruned)
        self.assertGreater(abs(sparse - dense), 1e-3 * dense)
        self.assertEqual(self.sample("sparse"), self.sample("pruned"))
        self.assertNotEqual(self.sample("sparse"), self.sample("dense"))

    def test_folders_for_others_are_pruned_along_the_inputs(self):
        """Hugging Face splits qkv of llama by rows, and GPT-2 stores its matrices transposed. The moving average has a mask of its own."""
        parts = {"llama": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"], "gpt2": ["attn.c_attn"]}
        for family, names in parts.items():
            overrides = ["sparsity={pattern: 2:4}", "model.family=" + family, "model.key_value_heads=0", "optimizer.moving_average=0.8"]
            self.train(family, *MODEL, *overrides, "steps=5", ranks=1)
            saved = load_file(self.path(family, "checkpoints/step-00000005/rank-00000.safetensors"))
            average = saved["blocks.1.attention.qkv.weight/average"].reshape(-1, 4)
            kept = numpy.zeros(average.shape, bool)
            numpy.put_along_axis(kept, numpy.argsort(-abs(average), axis=1, kind="stable")[:, :2], True, axis=1)
            theirs = self.exported(family, "--format", "hf")
            prefix = "transformer.h.1." if family == "gpt2" else "model.layers.1."
            matrices = [theirs[prefix + name + ".weight"] for name in names]
            found = numpy.concatenate([matrix.T if family == "gpt2" else matrix for matrix in matrices])
            self.assertEqual(found.shape, (72, 24))
            numpy.testing.assert_array_equal(found.reshape(-1, 4), numpy.where(kept, average, 0))

    def test_the_mask_is_that_of_the_type_in_which_it_computes(self):
        self.train("bfloat16", *SPARSE, "precision.compute=bfloat16", "steps=5", ranks=1)
        exported, masters = self.exported("bfloat16"), self.masters("bfloat16", 5)
        for name in filter(is_pruned, exported):
            bits = masters[name].reshape(-1, 4).view(numpy.uint32).astype(numpy.uint64)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 & 0x7FFF  # to nearest even, without the sign
            order = numpy.argsort(-rounded.astype(numpy.int64), axis=1, kind="stable")
            kept = numpy.zeros(rounded.shape, bool)
            numpy.put_along_axis(kept, order[:, :2], True, axis=1)
            numpy.testing.assert_array_equal(exported[name].reshape(-1, 4) != 0, kept)

    def test_repeats_its_bits(self):
        ways = ["gradient_checkpointing=" + way for way in ("none", "selective", "full")]
        for family in ("llama", "gpt2"):
            common = [*SPARSE, "model.family=" + family, "model.key_value_heads=0", "steps=4", "checkpoint.every=2"]
            for way in ways:
                self.train(family + way, *common, way)
                self.assertEqual(self.losses(family + way), self.losses(family + ways[0]), family + way)
                self.assertEqual(self.hashes(family + way), self.hashes(family + ways[0]), family + way)
            self.train(family, *common, "run.stop_after=2")
            self.train(family, *common)
            self.assertEqual(self.hashes(family)[4], self.hashes(family + ways[0])[4])

    def test_begins_at_a_step(self):
        """The run is the dense one before that step, bit for bit, and then the sparse one that goes on from its checkpoint."""
        common = ["steps=6", "checkpoint.every=1", "checkpoint.keep=6", "evaluation={every: 1, tokens: 64}"]
        later = "sparsity={pattern: 2:4, only: mlp, from_step: 4}"
        for family in ("llama", "gpt2"):  # the gelu of gpt2 is an epilogue of dense products, and an op of its own for pruned ones
            model = [*MODEL, "model.family=" + family, "model.key_value_heads=0", *common]
            dense, whole, parts = family + " dense", family + " whole", family + " in two parts"
            self.train(dense, *model)
            self.train(whole, *model, later)
            self.assertIn("sparsity: weights are pruned from step 4 on", self.output)
            self.train(parts, *model, "run.stop_after=3")
            self.train(parts, *model, "sparsity={pattern: 2:4, only: mlp}", expect=2)
            self.assertIn("with sparsity.from_step: 4 or later, the saved step 3 would go on with pruned weights", self.output + self.errors)
            self.train(parts, *model, later)
            self.assertEqual(self.hashes(parts), self.hashes(whole))
            self.assertEqual(self.losses(parts), self.losses(whole))
            hashes, validation = [], []
            for run in (dense, whole):
                hashes.append([self.hashes(run)[step] for step in range(1, 7)])
                validation.append([line["validation_loss"] for line in self.lines(run) if "validation_loss" in line])
            for of_dense, of_whole in (hashes, validation):
                self.assertEqual(of_whole[:3], of_dense[:3])
                for step in (3, 4, 5):
                    self.assertNotEqual(of_whole[step], of_dense[step])
            self.assertNotEqual(self.losses(whole)[3], self.losses(dense)[3])  # the first forward with pruned weights

    def test_the_line_of_the_step_is_not_behind_the_progress_line(self):
        terminal = {"STRATA_TERMINAL": "1", "NO_COLOR": "1"}
        late = ["steps=6", "checkpoint.every=6", "evaluation.every=6", "log.every=100"]
        self.train("terminal", *SPARSE, "sparsity.from_step=4", *late, ranks=1, environment=terminal)
        self.assertIn("step 2/6", self.output)
        self.assertIn("\033[Ksparsity: weights are pruned from step 4 on\n", self.output)

    def test_goes_on_before_at_and_after_the_step_with_the_same_bits(self):
        later = [*SPARSE, "sparsity.from_step=4", "steps=6", "checkpoint.every=1", "checkpoint.keep=6"]
        self.train("whole", *later)
        for stop in (2, 3, 4):
            run = "stopped after %d" % stop
            self.train(run, *later, "run.stop_after=%d" % stop)
            self.train(run, *later)
            self.assertEqual(self.hashes(run)[6], self.hashes("whole")[6], run)
        # Exports are what the run multiplied with in their step.
        for step, zeros in ((3, 0), (4, 2)):
            for name, value in self.exported("whole", "--step", str(step), to="exported-%d" % step).items():
                if is_pruned(name):
                    self.assertTrue((numpy.count_nonzero(value.reshape(-1, 4) == 0, axis=1) == zeros).all(), (name, step))

    def test_ranks_and_micro_batches_mean_the_same(self):
        runs = {"one": (1, []), "two": (2, []), "small": (1, ["micro_batch=4"]), "replicas": (2, ["sharding.strategy=none"])}
        for run, (ranks, overrides) in runs.items():
            self.train(run, *DECAYED, *overrides, ranks=ranks)
            self.expect_same_losses(run, "one")
            self.assertLess(abs(self.first_norm(run) / self.first_norm("one") - 1), 1e-5, run)
        self.assertGreater(self.losses("one")[0] - self.losses("one")[-1], 0)

    def test_a_rank_may_hold_no_pruned_weight(self):
        """All of attention.output is in the shards of rank 0. Where some tokens have no loss, all ranks count those that have one."""
        options = [*DECAYED, "sparsity.only=attention.output", "data.documents=separate"]
        for ranks in (1, 2):
            self.train("on %d" % ranks, *options, ranks=ranks)
        self.expect_same_losses("on 2", "on 1")
        self.assertLess(abs(self.first_norm("on 2") / self.first_norm("on 1") - 1), 1e-5)

    def test_the_decay_is_in_the_gradient_once(self):
        """Its part does not depend on the scale of the loss nor on how many tokens have one."""
        self.train("plain", *DECAYED)
        norm = self.first_norm("plain")
        self.train("more", *DECAYED, "sparsity.decay=200")
        self.assertLess(abs(self.first_norm("more") / norm - 2), 0.02)
        for run, overrides in (("fewer", ["data.documents=separate"]),
                               ("float16", ["precision={compute: float16, loss_scaling: {initial: 256}}"]),
                               ("bfloat16", ["precision={compute: bfloat16, reduce: bfloat16}"])):
            self.train(run, *DECAYED, *overrides)
            self.assertLess(abs(self.first_norm(run) / norm - 1), 0.02, run)

    def test_decay_draws_pruned_weights_to_zero(self):
        shares = []
        for decay in ("0", "2e-2"):
            run = "decay " + decay
            self.train(run, *SPARSE, "sparsity.decay=" + decay, "steps=40", "checkpoint.every=40", ranks=1)
            weights = [value.reshape(-1, 4) for name, value in self.masters(run, 40).items() if is_pruned(name)]
            groups = numpy.sort(abs(numpy.concatenate(weights)), axis=1)
            shares.append(groups[:, :2].sum() / groups.sum())
        self.assertLess(shares[1], 0.9 * shares[0])

    def test_the_run_says_what_is_emulated(self):
        self.train("told", *MODEL, "sparsity={pattern: 2:4, only: blocks.1-2.mlp}", "steps=1", "schedule.warmup=0")
        with open(self.path("told", "kernels.txt"), encoding="utf-8") as file:
            table = file.read()
        for text in (table, self.output):
            self.assertRegex(text, r"sparsity +root +layers 0 +layers 1-2")
            self.assertRegex(text, r"linear \(mlp.down\) +- +none +2:4 \(emulated\)")

    def test_refused(self):
        tiles = [*MODEL, "sparsity={pattern: 2:4, mask: transposable, only: mlp}"]
        self.train("refused", *tiles, ranks=2, expect=2)
        words = "sparsity.decay: with a transposable mask it needs whole weights on each rank; expected 0, or sharding.strategy none"
        self.assertIn(words, self.output + self.errors)
        for overrides, words in (
            (["sparsity={pattern: 2:4}"], "2:4 prunes groups of four inputs, which do not divide the 41 inputs of blocks.0.mlp.down"),
            ([*SPARSE, "precision.linear={format: fp8}"], "has the number format fp8 current of precision.linear too"),
            ([*SPARSE, "sparsity.from_step=3", "steps=2"], "no weight would be pruned, because the run ends with step 2"),
        ):
            self.train("refused", *overrides, ranks=1, expect=2)
            self.assertIn(words, self.output + self.errors)
            self.assertFalse(os.path.exists(self.path("refused")))


if __name__ == "__main__":
    unittest.main()
