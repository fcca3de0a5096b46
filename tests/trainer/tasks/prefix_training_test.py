# SPDX-License-Identifier: MIT
"""Trains prefix language models: they equal PyTorch without the targets that they see, and never learn tokens that nothing predicts."""
import itertools
import math
import os
import sys
import unittest

import numpy
import torch
import torch.nn.functional as functional

sys.path.insert(0, "tests/trainer")
import pytorch_parity_test as parity  # noqa: E402
from parity_runs import trained  # noqa: E402
from training_runs import TrainingRuns, write_document_ends, write_tokens  # noqa: E402

SEQUENCE, VOCABULARY, STEPS, ROWS = parity.SEQUENCE, parity.VOCABULARY, 8, 8
LLAMA = ", key_value_heads: 1, feed_forward: 40, tied: false"


def prefix(n):
    return lambda query, key: (key <= query) | (key < n)


def band(n):
    return lambda query, key: (query - key < n) & (query - key > -n)


def both(a, b):
    return lambda query, key: a(query, key) & b(query, key)


# Family, more of its configuration, heads of keys and values, the patterns of its layers, the key `layers`, and the positions without a target.
MODELS = {
    "gpt2": ("gpt2", ", attention: causal | prefix(5)", parity.HEADS, (prefix(5), prefix(5)), "", range(4)),
    "the largest counts": ("llama", LLAMA + ", attention: causal | prefix(3)", 1, (prefix(3), prefix(6)),
                           "layers: [{only: 1, attention: causal | prefix(6)}]", range(5)),
    "in a window": ("llama", LLAMA + ", attention: (causal | prefix(6)) & window(3)", 1, (both(prefix(6), band(3)),) * 2, "", range(5)),
    # The first layer shows position 0 token 3, and the second layer shows positions 1 and 2 what position 0 has seen.
    "over layers": ("llama", LLAMA + ", attention: causal", 1, (lambda query, key: prefix(4)(query, key) & (abs(query - key) % 3 == 0) & (abs(query - key) < 6),
                                                                 parity.causal),
                    "layers: [{only: 0, attention: '(causal | prefix(4)) & dilated(2, 3)'}]", range(3)),
}

CONFIG = """
run: {{folder: {folder}/run}}
steps: {steps}
batch: 8
micro_batch: {micro_batch}
model: {{type: transformer, family: {family}, layers: 2, width: 24, heads: 3, sequence: 12, vocabulary: 37{more}}}
data: {{type: text, train: '{folder}/train.bin', validation: '{folder}/{validation}.bin'}}
optimizer: {{type: adamw, learning_rate: {rate}, betas: [0.9, 0.95], epsilon: 1e-4, weight_decay: 0, gradient_clip: 0}}
schedule: {{type: constant}}
{layers}
"""


def text(folder, family, more, layers, rate, steps=STEPS, micro_batch=2, validation="train"):
    return CONFIG.format(folder=folder, family=family, more=more, layers=layers, rate=rate, steps=steps, micro_batch=micro_batch,
                         validation=validation)


def windows():
    """Returns ROWS files of one window each, so that every step sees all of them."""
    return torch.tensor([[(i * i + 7 * (i // 5) + 11 * row) % VOCABULARY for i in range(SEQUENCE + 1)] for row in range(ROWS)])


def write_windows(folder):
    os.makedirs(folder, exist_ok=True)
    for row, tokens in enumerate(windows().tolist()):
        write_tokens(f"{folder}/train_{row}.bin", tokens)


class PrefixTrainingTest(TrainingRuns):
    def reference(self, weights, model, ignored):
        """Returns losses, gradient norms and the loss after the last step of PyTorch. Targets at the positions `ignored` have no loss."""
        family, _, key_value_heads, patterns = MODELS[model][:4]
        inputs, targets = windows()[:, :-1], windows()[:, 1:].clone()
        targets[:, list(ignored)] = -100

        def loss_of(weights):
            logits = parity.forward(weights, inputs, family, key_value_heads, patterns)
            return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100)

        weights = {name: value.clone().requires_grad_(True) for name, value in weights.items()}
        optimizer = torch.optim.AdamW(weights.values(), lr=1e-2, betas=(0.9, 0.95), eps=1e-4, weight_decay=0)
        losses, norms = [], []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = loss_of(weights)
            loss.backward()
            losses.append(loss.item())
            norms.append(torch.cat([value.grad.flatten() for value in weights.values()]).norm().item())
            optimizer.step()
        return losses, norms, loss_of(weights).item()

    def test_equals_pytorch_without_the_targets_that_are_seen(self):
        for model, (family, more, _, _, layers, ignored) in MODELS.items():
            folder = self.path(model)
            write_windows(folder)
            config = text(folder, family, more, layers, "1e-30", 1).replace("/train.bin", "/train_*.bin")
            weights = trained(folder, config, "run.ranks=1", "run.device=cpu", "run.folder=" + folder + "/run")[0]
            losses, norms, last = self.reference(weights, model, ignored)
            # One position more or less has other losses, so a mask that is off by one would be found.
            for mutant in (range(len(ignored) - 1), range(len(ignored) + 1), range(1, len(ignored) + 1)):
                self.assertGreater(numpy.max(numpy.abs(numpy.divide(self.reference(weights, model, mutant)[0], losses) - 1)), 1e-3, model)
            for level, ranks in itertools.product(("aten", "torchscript"), self.some_ranks(1, 2)):
                run = f"{model}-{level}-{ranks}"
                write_windows(self.path(run))
                path = self.path(run) + "/config.yaml"
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text(self.path(run), family, more, layers, "1e-2").replace("/train.bin", "/train_*.bin"))
                self.train(run + "/run", "kernels.default=" + level, ranks=ranks, config=path)
                lines = [line for line in self.lines(run + "/run") if "loss" in line]
                numpy.testing.assert_allclose([line["loss"] for line in lines], losses, rtol=2e-5, err_msg=run)
                numpy.testing.assert_allclose([line["gradient_norm"] for line in lines], norms, rtol=2e-4, err_msg=run)
                evaluation = [line for line in self.lines(run + "/run") if "validation_loss" in line][-1]
                numpy.testing.assert_allclose(evaluation["validation_loss"], last, rtol=5e-5, err_msg=run)
                self.assertEqual(evaluation["validation_tokens"], ROWS * (SEQUENCE - len(ignored)), run)

    def random_tokens(self, folder):
        """Writes tokens that nothing predicts, and more of them than a model of this size keeps in its weights."""
        random = numpy.random.default_rng(1)
        os.makedirs(folder, exist_ok=True)
        for name, rows in (("train", 4000), ("validation", 400)):
            write_tokens(f"{folder}/{name}.bin", random.integers(VOCABULARY, size=rows * SEQUENCE + 1).tolist())
            write_document_ends(f"{folder}/{name}.bin", [*range(7, rows * SEQUENCE, 31), rows * SEQUENCE + 1])

    def test_tokens_that_nothing_predicts_are_not_learnt(self):
        """With all targets these steps bring the first three patterns from ln 37 = 3.61, the entropy of the tokens, to 3.54, 1.71 and 1.04."""
        patterns = ("causal | prefix(5)", "(causal | prefix(9)) & window(3)", "causal | prefix(11)", "causal | prefix(6) & global(2)",
                    "(causal | prefix(8)) & dilated(2, 3)", "causal & window(4)")
        for pattern, documents in itertools.product(patterns, ("joined", "separate")):
            with self.subTest(pattern, documents=documents):
                run = f"random-{patterns.index(pattern)}-{documents}"
                self.random_tokens(self.path(run))
                path = self.path(run) + "/config.yaml"
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text(self.path(run), "llama", LLAMA + f", attention: '{pattern}'", "", "1e-2", 250, micro_batch=8, validation="validation"))
                self.train(run + "/run", "data.documents=" + documents, "checkpoint.every=0", ranks=1, config=path)
                evaluation = [line for line in self.lines(run + "/run") if "validation_loss" in line][-1]
                self.assertGreater(evaluation["validation_loss"], math.log(VOCABULARY) - 0.02)
                self.assertLess(evaluation["validation_loss"], math.log(VOCABULARY) + 1)

    def test_a_model_that_sees_its_targets_is_refused(self):
        for pattern, causal in (("window(3)", "causal & window(3)"), ("full", "causal")):
            self.train("refused", "model.attention=" + pattern, ranks=1, expect=2)
            self.assertIn(f"override 'model.attention={pattern}': model.attention: position t is trained to predict token t + 1, and with `{pattern}` "
                          f"it sees tokens after it; write `{causal}`; this is the pattern of layers 0-2\n", self.errors)
            self.assertFalse(os.path.exists(self.path("refused")))


if __name__ == "__main__":
    unittest.main()
