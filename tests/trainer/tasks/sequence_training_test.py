# SPDX-License-Identifier: MIT
"""Ranks that share each sequence learn what one rank learns: losses, gradient norms, evaluations and weights."""
import os
import subprocess
import sys
import unittest

import numpy
from safetensors.torch import load_file

sys.path.insert(0, "tests/trainer")
from training_runs import EVERY, FAMILIES, TrainingRuns  # noqa: E402

EXPORT = os.environ.get("STRATA_TEST_EXPORT") or os.path.abspath("tools/weights/export")
STEPS = 6
WINDOWS = ["model.attention=causal & window(5)", "layers=[{only: 1, attention: causal}]"]
# Each model has grouped heads and dropout.
MODELS = {
    "rotary": [],
    "windows": WINDOWS,
    "learned positions": ["model.family=gpt2", "model.feed_forward=0"],
    "documents": ["data.documents=separate"],
    "documents in windows": ["data.documents=separate", *WINDOWS, "gradient_checkpointing=full"],
    "learned positions of documents": ["model.family=gpt2", "model.feed_forward=0", "data.documents=separate", "gradient_checkpointing=selective"],
    "terms": ["model.alibi=true", "model.softcap=5", "model.sinks=true", "kernels.linear_cross_entropy=aten"],
    "definition": ["kernels.default=torchscript", "layers=[{only: 1, attention: causal | prefix(6)}]"],
    "a prefix of documents": ["data.documents=separate", "layers=[{only: 1, attention: causal | prefix(7)}]"],
}
COMMON = ["steps=%d" % STEPS, "model.sequence=16", "optimizer.epsilon=1e-4", "optimizer.moving_average=0.5", "evaluation={every: 3, tokens: 0}"]


class SequenceTrainingTest(TrainingRuns):
    def weights(self, run):
        folder = self.path(run) + "-weights"
        if os.path.exists(folder):
            return load_file(folder + "/model.safetensors")
        result = subprocess.run([EXPORT, self.path(run), folder], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return load_file(folder + "/model.safetensors")

    def expect_same(self, run, reference):
        for name, tolerance in (("loss", 1e-5), ("gradient_norm", 1e-4), ("validation_loss", 1e-5), ("validation_tokens", 0)):
            found, expected = ({line["step"]: line[name] for line in self.lines(of) if name in line} for of in (run, reference))
            self.assertGreater(len(expected), 1)
            values = [found[step] for step in expected]  # a run that stopped has evaluations of other steps too
            numpy.testing.assert_allclose(values, list(expected.values()), rtol=tolerance, err_msg=run + ", " + name)
        weights = self.weights(run)
        for name, value in self.weights(reference).items():
            self.assertLess((weights[name] - value).norm() / value.norm().clamp(min=1e-3), 1e-4, run + ", " + name)

    def test_any_number_of_ranks_learns_the_same(self):
        """A step has two micro-batches in each group, or one on 4 ranks in 2 groups. The first model is trained on all of them, and each other one
        on some."""
        layouts = ((2, 2), (4, 2), (4, 4))
        for i, (name, overrides) in enumerate(MODELS.items()):
            with self.subTest(name):
                self.train(name, *COMMON, *overrides, ranks=1)
                for ranks, shared_by in layouts if EVERY or i == 0 else layouts[i % 3:i % 3 + 1]:
                    run = "%s on %d by %d" % (name, ranks, shared_by)
                    self.train(run, *COMMON, *overrides, "sharding.sequence=%d" % shared_by, ranks=ranks)
                    self.expect_same(run, name)

    def test_parameters_are_sharded_over_all_ranks_or_groups(self):
        self.train("one", *COMMON, ranks=1)
        for strategy, shard_ranks in (("none", 0), ("full", 0), ("hybrid", 2)):
            sharding = "sharding={strategy: %s, shard_ranks: %d, sequence: 2, accumulate: full}" % (strategy, shard_ranks)
            self.train(strategy, *COMMON, sharding, "micro_batch=4", ranks=4)
            self.expect_same(strategy, "one")

    def test_resumed_on_another_number_of_ranks(self):
        self.train("whole", *COMMON, ranks=1)
        for ranks, shared_by, until in ((2, 2, 2), (4, 4, 4), (2, 1, 5), (4, 2, 6)):
            self.train("parts", *COMMON, "sharding.sequence=%d" % shared_by, "run.stop_after=%d" % until, "micro_batch=4", ranks=ranks)
        self.expect_same("parts", "whole")

    def test_part_of_the_last_evaluation_batch(self):
        """A batch of an evaluation that ends with padding in one of two groups."""
        for run, ranks, shared_by in (("one", 1, 1), ("four", 4, 2)):
            self.train(run, *COMMON, "evaluation={every: 3, tokens: 80}", "sharding.sequence=%d" % shared_by, "micro_batch=4", ranks=ranks)
        self.expect_same("four", "one")

    def test_refused(self):
        vision = [text.format(data=self.data) for text in FAMILIES["vision"]]
        for overrides, ranks, words in (
            (["sharding.sequence=2"], 3, "expected a divisor of run.ranks 3, got 2"),
            (["sharding.sequence=4", "model.sequence=20"], 4, "20 is not a multiple of 2 x sharding.sequence 4 = 8; nearest that are: 16 and 24"),
            (["sharding.sequence=2", *vision], 2, "expected 1, because only sequences of a transformer are split over ranks"),
            (["sharding.sequence=2", "batch=12"], 4, "12 is not a multiple of micro_batch 8 x run.ranks 4 / sharding.sequence 2 = 16"),
        ):
            self.train("refused", *overrides, ranks=ranks, expect=2)
            self.assertIn(words, self.output + self.errors)


if __name__ == "__main__":
    unittest.main()
