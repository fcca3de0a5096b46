# SPDX-License-Identifier: MIT
"""Trains on packed documents, and compares with PyTorch on the same documents one by one: losses, gradient norms and weights."""
import itertools
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

SEQUENCE, VOCABULARY, STEPS = parity.SEQUENCE, parity.VOCABULARY, 8
# The lengths of the documents of a window: of one token, as long as a row, to the end of a row and over it.
PACKINGS = [[12, 1], [13], [1] * 13, [5, 7, 1], [1, 11, 1], [1, 12], [3, 4, 6], [6, 1, 1, 5]]
LLAMA = ", key_value_heads: 1, feed_forward: 40, tied: false"
CAUSAL = (parity.causal, parity.causal)
# Family, more of its configuration, heads of keys and values, the patterns of its layers, and the key `layers`. If layers
# have rotary positions of their own, also base and factor of each.
MODELS = {
    "gpt2": ("gpt2", "", parity.HEADS, CAUSAL, ""),
    "llama": ("llama", LLAMA, 1, CAUSAL, ""),
    "patterns": ("llama", LLAMA + ", attention: causal & window(3)", 1,
                 (lambda query, key: (key <= query) & (query - key < 3), lambda query, key: (query - key == 0) | (query - key == 2)),
                 "layers: [{only: 1, attention: 'causal & dilated(2, 2)'}]"),
    "rotary": ("llama", LLAMA + ", rotary_base: 50, rotary_scaling: {type: linear, factor: 4}", 1, CAUSAL, "layers: [{only: 1, rotary_base: 7}]",
               ((50, 4), (7, 1))),
}

CONFIG = """
run: {{folder: {folder}/run}}
steps: {steps}
batch: 8
micro_batch: 2
model: {{type: transformer, family: {family}, layers: 2, width: 24, heads: 3, sequence: 12, vocabulary: 37{more}}}
data: {{type: text, train: '{folder}/train_*.bin', validation: '{folder}/train_*.bin', documents: separate}}
optimizer: {{type: adamw, learning_rate: {rate}, betas: [0.9, 0.95], epsilon: 1e-4, weight_decay: 0, gradient_clip: 0}}
schedule: {{type: constant}}
checkpoint: {{every: 4}}
{layers}
"""


def write_windows(folder):
    """Writes a token file with one window for each packing, so that each step sees all of them. Returns the documents that
    lie in windows, as they are seen alone: their inputs and targets."""
    alone = []
    for index, lengths in enumerate(PACKINGS):
        tokens = [(i * i + 7 * (i // 5) + 11 * index) % VOCABULARY for i in range(SEQUENCE + 1)]
        assert sum(lengths) == len(tokens)
        ends = numpy.cumsum(lengths)
        write_tokens(f"{folder}/train_{index}.bin", tokens)
        write_document_ends(f"{folder}/train_{index}.bin", ends)
        for document in numpy.split(torch.tensor(tokens), ends[:-1]):
            if len(document) > 1:
                alone.append((document[:-1].unsqueeze(0), document[1:]))
    return alone


def text(folder, model, rate, steps=STEPS):
    family, more, _, _, layers = MODELS[model][:5]
    return CONFIG.format(folder=folder, family=family, more=more, layers=layers, rate=rate, steps=steps)


def one_by_one(weights, documents, model):
    """Returns the mean loss over the predicted tokens of all documents."""
    family, _, key_value_heads, patterns, _, *rotary = MODELS[model]
    options = {"rotary": rotary[0]} if rotary else {}
    total = sum(functional.cross_entropy(parity.forward(weights, inputs, family, key_value_heads, patterns, **options)[0], targets, reduction="sum")
                for inputs, targets in documents)
    return total / sum(len(targets) for _, targets in documents)


class PackedDocumentsTest(TrainingRuns):
    def run_packed(self, folder, model, rate, *overrides, steps=STEPS, ranks=1):
        os.makedirs(folder, exist_ok=True)
        write_windows(folder)
        path = folder + "/config.yaml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text(folder, model, rate, steps))
        self.train(os.path.relpath(folder + "/run", self.folder), *overrides, ranks=ranks, config=path)

    def initial_weights(self, model):
        folder = os.path.join(self.folder, "initial-" + model)
        os.makedirs(folder)
        write_windows(folder)
        return trained(folder, text(folder, model, "1e-30", 1), "run.ranks=1", "run.device=cpu")[0]

    def check(self, model):
        weights = {name: value.requires_grad_(True) for name, value in self.initial_weights(model).items()}
        optimizer = torch.optim.AdamW(weights.values(), lr=1e-2, betas=(0.9, 0.95), eps=1e-4, weight_decay=0)
        losses, norms = [], []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = one_by_one(weights, write_windows(self.folder), model)
            loss.backward()
            losses.append(loss.item())
            norms.append(torch.cat([value.grad.flatten() for value in weights.values()]).norm().item())
            optimizer.step()
        last = one_by_one(weights, write_windows(self.folder), model).item()
        for level, ranks in itertools.product(("aten", "torchscript"), self.some_ranks(1, 2)):
            name = f"{model}-{level}-{ranks}"
            self.run_packed(self.path(name), model, "1e-2", "kernels.default=" + level, ranks=ranks)
            lines = [line for line in self.lines(name + "/run") if "loss" in line]
            numpy.testing.assert_allclose([line["loss"] for line in lines], losses, rtol=2e-5, err_msg=name)
            numpy.testing.assert_allclose([line["gradient_norm"] for line in lines], norms, rtol=2e-4, err_msg=name)
            evaluation = [line for line in self.lines(name + "/run") if "validation_loss" in line][-1]
            numpy.testing.assert_allclose(evaluation["validation_loss"], last, rtol=5e-5, err_msg=name)
            self.assertEqual(evaluation["validation_tokens"], sum(length - 1 for lengths in PACKINGS for length in lengths))

    def test_gpt2(self):
        self.check("gpt2")

    def test_llama(self):
        self.check("llama")

    def test_a_pattern_for_each_layer(self):
        self.check("patterns")

    def test_rotary_positions_of_each_layer(self):
        self.check("rotary")

    def test_documents_matter(self):
        """The same run with joined documents has another loss from its first step on."""
        folder = self.path("joined")
        self.run_packed(folder, "llama", "1e-2")
        separate = self.losses("joined/run")
        self.run_packed(folder, "llama", "1e-2", "data.documents=joined", "run.overwrite=true", "checkpoint.resume=never")
        self.assertGreater(abs(self.losses("joined/run")[0] - separate[0]), 1e-4)

    def test_a_resumed_run_ends_with_the_same_weights(self):
        self.run_packed(self.path("whole"), "llama", "1e-2", ranks=2)
        folder = self.path("parts")
        self.run_packed(folder, "llama", "1e-2", "run.stop_after=3", ranks=2)
        self.run_packed(folder, "llama", "1e-2", ranks=2)
        self.assertEqual(self.hashes("parts/run")[STEPS], self.hashes("whole/run")[STEPS])

    def test_a_damaged_token_that_no_step_reads_is_no_error(self):
        """The windows of a training sample are shifted, so no step of this run reads token 0. A start reads the documents of that window."""
        folder = self.path("damaged")
        os.makedirs(folder)
        with open(folder + "/config.yaml", "w", encoding="utf-8") as file:
            file.write(text(folder, "llama", "1e-2", 2).replace("validation: '%s/train_*" % folder, "validation: '%s/validation" % folder))
        write_tokens(folder + "/train_0.bin", [VOCABULARY] + [i % VOCABULARY for i in range(100 * SEQUENCE)])
        write_tokens(folder + "/validation.bin", [i % VOCABULARY for i in range(SEQUENCE + 1)])
        for name, end in (("train_0", 100 * SEQUENCE + 1), ("validation", SEQUENCE + 1)):
            write_document_ends(f"{folder}/{name}.bin", [5, end])
        self.train("damaged/run", ranks=1, config=folder + "/config.yaml")
        self.assertEqual(len([line for line in self.lines("damaged/run") if "loss" in line]), 2)
        # Every step reads it now.
        write_tokens(folder + "/train_0.bin", [VOCABULARY] * (100 * SEQUENCE + 1))
        self.train("damaged/run", "run.overwrite=true", "checkpoint.resume=never", ranks=1, config=folder + "/config.yaml", expect=3)
        self.assertIn("is 37, outside of the vocabulary of 37", self.output + self.errors)

    def test_other_documents_are_other_data(self):
        folder = self.path("changed")
        self.run_packed(folder, "llama", "1e-2", "run.stop_after=3")
        write_document_ends(folder + "/train_0.bin", [6, 13])
        self.train("changed/run", ranks=1, config=folder + "/config.yaml", expect=2)
        self.assertIn("the data: was", self.output + self.errors)

    def test_refused(self):
        folder = self.path("refused")
        os.makedirs(folder)
        write_windows(folder)
        path = folder + "/config.yaml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text(folder, "llama", "1e-2", 1))
        self.train("refused/run", "data.documents=both", ranks=1, config=path, expect=2)
        write_document_ends(folder + "/train_3.bin", [5, 5, 13])
        self.train("refused/run", ranks=1, config=path, expect=3)
        self.assertIn("train_3.bin.documents: document 1 of 3 ends at token 5; expected more than 5", self.errors)
        os.unlink(folder + "/train_3.bin.documents")
        self.train("refused/run", ranks=1, config=path, expect=3)
        self.assertIn("there is no train_3.bin.documents beside it", self.errors)
        self.assertIn("tools/strata prepare text", self.errors)


if __name__ == "__main__":
    unittest.main()
