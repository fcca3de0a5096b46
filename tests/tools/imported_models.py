# SPDX-License-Identifier: MIT
"""The common part of tests of imported and exported weights."""

import os
import subprocess
import tempfile
import unittest

import torch
from safetensors.torch import load_file

TRAIN, EXPORT, IMPORT = (os.path.abspath(name) for name in ("trainer/train", "tools/export", "tools/import"))
VALUES = os.path.abspath("tests/tools/model_values")


def command(*words, expected=0):
    result = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == expected, (words, result.returncode, result.stdout + result.stderr)
    return result.stdout + result.stderr


class ImportedModels(unittest.TestCase):
    """Each test or setUp has a folder of its own."""

    rest = ""  # the part of a configuration after its model

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def config(self, weights, more=""):
        """Returns a run's configuration for the model of `weights`."""
        with open(self.path(weights) + "/model.yaml", encoding="utf-8") as file:
            text = file.read() + self.rest.format(folder=self.folder, more=more)
        with open(self.path("config.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("config.yaml")

    def assert_same_bits(self, weights, others):
        before, after = (load_file(self.path(name) + "/model.safetensors") for name in (weights, others))
        self.assertEqual(set(before), set(after))
        self.assertTrue(all(torch.equal(before[name], after[name]) for name in before))
