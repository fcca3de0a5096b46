# SPDX-License-Identifier: MIT
"""Runs of blocks with many keys: any number of ranks learns the same, and recomputation changes no bit."""
import sys

sys.path.insert(0, "tests/trainer")
from training_runs import TrainingRuns  # noqa: E402

MODEL = "model={type: transformer, family: llama, layers: 3, width: 24, heads: 3, key_value_heads: 1, feed_forward: 41, sequence: 12, vocabulary: 37,"
BLOCKS = {
    "both": [
        MODEL + " dropout: 0.1, head_width: 10, qkv_biases: true, query_key_norm: head, gate: gelu_tanh, embedding_scale: sqrt_width, norm_placement: both,"
        " attention: causal & window(5), rotary_scaling: {type: yarn, factor: 4, original_sequence: 24, beta_fast: 8}}",
        "layers=[{only: 1, attention: causal, rotary_base: 100}]"],
    "after": [MODEL + " query_key_norm: whole, norm_placement: after, rotary_scaling: {type: linear, factor: 4}}"],
}


class DecoderTrainingTest(TrainingRuns):
    def test_any_number_of_ranks_learns_the_same(self):
        for name, overrides in BLOCKS.items():
            runs = {ranks: "%s_on_%d" % (name, ranks) for ranks in self.some_ranks(1, 2, 3)}
            for ranks, run in runs.items():
                self.train(run, "steps=6", *overrides, ranks=ranks, batch=48)
            for run in runs.values():
                self.expect_same_losses(run, runs[1])
            self.assertLess(self.losses(runs[1])[-1], self.losses(runs[1])[0])

    def test_recomputed_layers_have_the_same_bits(self):
        for name, overrides in BLOCKS.items():
            for way in ("none", "selective", "full"):
                self.train(name + way, "steps=6", *overrides, "gradient_checkpointing=" + way)
            for way in ("selective", "full"):
                self.assertEqual(self.hashes(name + way), self.hashes(name + "none"), way)

    def test_separate_documents(self):
        for name, overrides in BLOCKS.items():
            self.train(name, "steps=6", *overrides, "data.documents=separate")
            self.train(name + "_joined", "steps=6", *overrides)
            self.assertNotEqual(self.losses(name)[0], self.losses(name + "_joined")[0])
            self.assertLess(self.losses(name)[-1], self.losses(name)[0])
