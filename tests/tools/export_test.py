# SPDX-License-Identifier: MIT
"""Checks that exported files open with the safetensors package and hold the weights that three ranks saved."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy
import safetensors
import safetensors.numpy

EXPORT = "tools/weights/export"
PROCESS = "tests/trainer/checkpoint/checkpoint_process"

# The fp32 weights of small_model.cc: their index in its list, and their shapes.
WEIGHTS = {"embedding.weight": (0, (13, 7)), "norm.weight": (3, (5,)), "one": (5, (1,))}


def value(tensor, shape, step):
    elements = numpy.arange(numpy.prod(shape))
    return ((tensor * 97 + elements * 3 + step) % 251).astype(numpy.float32).reshape(shape)


class ExportTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.run_folder = self.folder + "/run"
        os.mkdir(self.run_folder)
        commands = "".join(f"save {self.run_folder}/checkpoints {step} 3\n" for step in (10, 20))
        subprocess.run([PROCESS], input=commands, text=True, check=True, stdout=subprocess.DEVNULL)

    def export(self, *arguments):
        return subprocess.run([EXPORT, self.run_folder, *arguments], capture_output=True, text=True, check=False)

    def assert_weights(self, tensors, step):
        self.assertEqual(set(tensors), set(WEIGHTS))
        for name, (tensor, shape) in WEIGHTS.items():
            self.assertEqual(tensors[name].dtype, numpy.float32)
            numpy.testing.assert_array_equal(tensors[name], value(tensor, shape, step))

    def test_one_file(self):
        for step, arguments in ((20, []), (10, ["--step", "10"])):
            folder = f"{self.folder}/out/{step}"
            result = self.export(folder, *arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.listdir(folder), ["model.safetensors"])
            self.assert_weights(safetensors.numpy.load_file(folder + "/model.safetensors"), step)
            with safetensors.safe_open(folder + "/model.safetensors", "numpy") as file:
                self.assertEqual(file.metadata(), {"format": "pt"})

    def test_never_beside_other_weights(self):
        folder = self.folder + "/out"
        for first, then, word in (([], ["--file-bytes", "100"], "model.safetensors"), (["--file-bytes", "100"], [], "model")):
            shutil.rmtree(folder, ignore_errors=True)
            self.assertEqual(self.export(folder, *first).returncode, 0)
            before = sorted(os.listdir(folder))
            result = self.export(folder, *then, "--step", "10")
            self.assertEqual(result.returncode, 4)
            self.assertIn(f"{folder} has weights already: {word}", result.stderr)
            self.assertIn("name another folder", result.stderr)
            self.assertEqual(sorted(os.listdir(folder)), before)
        # An index alone would point to other weights.
        for name in before:
            if name != "model.safetensors.index.json":
                os.remove(f"{folder}/{name}")
        self.assertEqual(self.export(folder).returncode, 4)

    def test_several_files(self):
        folder = self.folder + "/out"
        result = self.export(folder, "--file-bytes", "100")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(folder + "/model.safetensors.index.json") as file:
            index = json.load(file)
        self.assertEqual(index["metadata"]["total_size"], 4 * (13 * 7 + 5 + 1))
        files = {f"model-0000{i}-of-00002.safetensors" for i in (1, 2)}
        self.assertEqual(set(os.listdir(folder)), files | {"model.safetensors.index.json"})
        tensors = {}
        for name, file in index["weight_map"].items():
            tensors[name] = safetensors.numpy.load_file(folder + "/" + file)[name]
        self.assertEqual(set(index["weight_map"].values()), files)
        self.assert_weights(tensors, 20)

    def test_damage_is_said(self):
        os.remove(self.run_folder + "/checkpoints/step-00000020/rank-00001.safetensors")
        result = self.export(self.folder + "/out")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("step-00000020/rank-00001.safetensors", result.stderr)
        self.assertIn("step 10:", result.stdout)
        self.assertEqual(self.export(self.folder + "/other", "--step", "20").returncode, 4)
        self.assertEqual(self.export(self.folder + "/other", "--step", "15").returncode, 4)
        self.assertEqual(self.export().returncode, 2)

    def test_the_checkpoint_itself_opens(self):
        name = self.run_folder + "/checkpoints/step-00000020/rank-00001.safetensors"
        with safetensors.safe_open(name, "numpy") as file:
            self.assertEqual(file.metadata(), {"step": "20", "rank": "1", "ranks": "3"})
            numpy.testing.assert_array_equal(
                file.get_tensor("embedding.weight/master"),
                value(0, (13, 7), 20).reshape(-1)[13 * 7 // 3:2 * 13 * 7 // 3])
