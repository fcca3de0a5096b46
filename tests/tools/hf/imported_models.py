# SPDX-License-Identifier: MIT
"""The common part of tests of imported and exported weights."""

import os
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file

TRAIN, EXPORT, IMPORT, GENERATE = (os.path.abspath(name) for name in ("trainer/train", "tools/weights/export", "tools/weights/import", "tools/generation/generate"))
VALUES = os.path.abspath("tests/tools/hf/model_values")


def command(*words, expected=0):
    result = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == expected, (words, result.returncode, result.stdout + result.stderr)
    return result.stdout + result.stderr


class ImportedModels(unittest.TestCase):
    """Each test or setUp has a folder of its own."""

    rest = ""  # the part of a configuration after its model

    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def path(self, name):
        return os.path.join(self.folder, name)

    def config(self, weights, more=""):
        """Returns a run's configuration for the model of `weights`."""
        with open(self.path(weights) + "/model.yaml", encoding="utf-8") as file:
            text = file.read() + self.rest.format(folder=self.folder, more=more)
        with open(self.path("config.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("config.yaml")

    def assert_same(self, ours, theirs, tolerance):
        self.assertEqual(set(ours), set(theirs))
        for name, value in theirs.items():
            error = (ours[name] - value).abs().max().item()
            self.assertLess(error, tolerance * max(1.0, value.abs().max().item()), name)

    def assert_same_bits(self, weights, others):
        before, after = (load_file(self.path(name) + "/model.safetensors") for name in (weights, others))
        self.assertEqual(set(before), set(after))
        self.assertTrue(all(torch.equal(before[name], after[name]) for name in before))


def write_tokens(path, tokens):
    """Writes a token file in the format of llm.c."""
    with open(path, "wb") as file:
        header = torch.zeros(256, dtype=torch.int32)
        header[:3] = torch.tensor([20240520, 1, len(tokens)])
        file.write(header.numpy().tobytes() + tokens.to(torch.uint16).numpy().tobytes())


class LanguageModels(ImportedModels):
    """Values of models of transformers, and of the same models here. A test sets `ids` [samples, sequence + 1]."""

    def write_ids(self):
        with open(self.path("ids.bin"), "wb") as file:
            file.write(self.ids.numpy().tobytes())

    def values_here(self, weights, config):
        command(VALUES, config, self.path(weights), self.path("ids.bin"), self.path("values"))
        return load_file(self.path("values/model.safetensors"))

    def values_there(self, model):
        """Returns logits, loss and gradients, the gradients with Strata's names."""
        model.set_attn_implementation("eager")  # some versions of transformers choose one that leaves out the cap of scores
        model.zero_grad()
        logits = model(self.ids[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.ids[:, 1:].flatten())
        loss.backward()
        gradients = type(model)(model.config)
        gradients.load_state_dict({name: parameter.grad for name, parameter in model.named_parameters()}, strict=False)
        gradients.tie_weights()
        gradients.save_pretrained(self.path("gradients_there"))
        command(IMPORT, self.path("gradients_there"), self.path("gradients"))
        values = load_file(self.path("gradients/model.safetensors"))
        if model.config.model_type.startswith("gemma"):  # an import adds 1 to the weights of norms, here to their gradients
            values = {name: value - 1 if "norm" in name else value for name, value in values.items()}
        return {**values, "logits": logits.detach(), "loss": loss.detach()}
