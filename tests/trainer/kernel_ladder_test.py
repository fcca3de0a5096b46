# SPDX-License-Identifier: MIT
"""configs/kernel_ladder.yaml at every level, and mixed by op, by layer and by module: the same training, within the tolerance of the dtype.

On a machine with a GPU, without Bazel, from an unpacked archive and with the libraries' folders in LD_LIBRARY_PATH:

    STRATA_TEST_DEVICE=cuda STRATA_TEST_TRAIN=bin/train STRATA_TEST_LEVELS=bin/levels \\
        STRATA_TEST_CONFIG=configs/kernel_ladder.yaml python3 kernel_ladder_test.py"""
import json
import os
import random
import re
import subprocess
import tempfile
import unittest

from training_runs import DEVICE, TRAIN, write_tokens

LEVELS = os.environ.get("STRATA_TEST_LEVELS") or os.path.abspath("tools/levels")
CONFIG = os.environ.get("STRATA_TEST_CONFIG") or os.path.abspath("configs/kernel_ladder.yaml")
STEPS = int(os.environ.get("STRATA_TEST_STEPS", "8"))

# Largest difference of a loss in this many steps. bfloat16 rounds each activation to 8 bits.
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}
# The ops that one key of `kernels:` sets together.
TOGETHER = {"rms_norm": ["rms_norm", "add_rms_norm"], "layer_norm": ["layer_norm", "add_layer_norm"], "activation": ["activation", "swiglu"]}
KEYS = ["linear", "layer_norm", "rms_norm", "activation", "rotary", "attention", "embedding", "dropout", "cross_entropy", "adamw",
        "sum_of_squares"]
OUTSIDE_OF_LAYERS = ["embedding", "cross_entropy", "adamw", "sum_of_squares"]
HEAD_AND_LOSS = "linear_cross_entropy"  # it replaces linear of the head and cross_entropy
# cuDNN's attention does not support float32.
OF_BFLOAT16 = {("cuda", "attention")}
FAMILIES = {"llama": [], "gpt2": ["model={type: transformer, family: gpt2, layers: 3, width: 128, heads: 2, sequence: 64, vocabulary: 256, dropout: 0.1}"]}


def existing():
    """Returns level -> the keys of `kernels:` that have this level on this device."""
    rows = [json.loads(line) for line in subprocess.run([LEVELS, "--json"], check=True, capture_output=True, text=True).stdout.splitlines()]
    there = {(row["op"], row["level"]) for row in rows if row["device"] == DEVICE and row["forward"]}
    levels = list(dict.fromkeys(row["level"] for row in rows))
    return {level: [key for key in KEYS + [HEAD_AND_LOSS] if all((op, level) in there for op in TOGETHER.get(key, [key]))] for level in levels}


def precision(dtype):
    return f"precision={{compute: {dtype}, reduce: float32}}"


def selection(levels, layers=""):
    return "kernels={default: aten, %s%s}" % (", ".join(f"{key}: {level}" for key, level in levels.items()), layers)


class KernelLadderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        numbers = random.Random(1)
        for name in ("train", "validation"):
            # The tokens have a pattern, so that there is something to learn.
            tokens = [numbers.choice((i % 7, i * i % 251, 3)) for i in range(20000)]
            write_tokens(f"{cls.folder}/{name}.bin", tokens)
        cls.existing = existing()
        cls.with_head_and_loss = [level for level, keys in cls.existing.items() if HEAD_AND_LOSS in keys]
        cls.existing = {level: [key for key in keys if key != HEAD_AND_LOSS] for level, keys in cls.existing.items()}
        cls.references = {}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def existing_in(self, dtype):
        return {level: [key for key in keys if dtype == "bfloat16" or (level, key) not in OF_BFLOAT16] for level, keys in self.existing.items()}

    def losses(self, name, *overrides):
        folder = f"{self.folder}/{name}"
        device = ["run.device=cuda"] if DEVICE == "cuda" else []
        command = [TRAIN, CONFIG, f"run.folder={folder}", f"data={{type: text, train: {self.folder}/train.bin, validation: {self.folder}/validation.bin}}",
                   f"steps={STEPS}", "schedule.warmup=2", *device, *overrides]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(folder + "/kernels.txt", encoding="utf-8") as file:
            rows = [re.fullmatch(r"(\S+)(?: \((\S+)\))? +(.*\S)\s*", line).groups() for line in file]
        self.table = {op: levels.split() for op, module, levels in rows if not module}
        self.module_levels = {(op, module): levels.split() for op, module, levels in rows if module}
        with open(folder + "/metrics.jsonl", encoding="utf-8") as file:
            return [line["loss"] for line in map(json.loads, file) if "loss" in line]

    def reference(self, dtype="float32", family="llama"):
        """Returns the losses at level aten. All tests share the run and its table."""
        name = f"{family}-{dtype}-aten"
        if name not in self.references:
            self.references[name] = self.losses(name, precision(dtype), *FAMILIES[family]), self.table
        losses, self.table = self.references[name]
        return losses

    def expect_the_same(self, found, reference, dtype):
        self.assertEqual(len(found), STEPS)
        self.assertEqual(len(reference), STEPS)
        for step, (ours, theirs) in enumerate(zip(found, reference), 1):
            self.assertAlmostEqual(ours, theirs, delta=TOLERANCE[dtype] * theirs, msg=f"loss of step {step}")

    def test_every_level_trains_the_same(self):
        for family, model in FAMILIES.items():
            for dtype in TOLERANCE:
                reference = self.reference(dtype, family)
                self.assertLess(reference[-1], reference[0], "nothing was learnt")
                model_ops = set(self.table)  # a line for another op is refused
                for level in self.existing:
                    keys = [key for key in self.existing_in(dtype)[level] if key in model_ops]
                    if level == "aten" or not keys:
                        continue
                    with self.subTest(f"{level} in {dtype}, {family}: {', '.join(keys)}"):
                        found = self.losses(f"{family}-{dtype}-{level}", precision(dtype), selection(dict.fromkeys(keys, level)), *model)
                        self.expect_the_same(found, reference, dtype)
                        self.assertGreater(len(keys), 2)
                        for key in keys:
                            self.assertEqual(set(self.table[key]) - {"-"}, {level})

    def test_head_and_loss_can_be_one_op(self):
        reference = self.reference()
        self.assertNotIn(HEAD_AND_LOSS, self.table)
        for level in self.with_head_and_loss:
            with self.subTest(level):
                self.expect_the_same(self.losses(f"one-op-{level}", selection({HEAD_AND_LOSS: level})), reference, "float32")
                self.assertEqual(set(self.table[HEAD_AND_LOSS]) - {"-"}, {level})

    def test_levels_can_be_mixed_by_op_and_layer(self):
        """Neighboring ops have different levels, and the middle layer has other levels than the rest."""
        reference = self.reference()
        existing = self.existing_in("float32")
        levels = [level for level, keys in existing.items() if keys]
        by_op, inner = {}, {}
        for i, key in enumerate(key for key in KEYS if key in self.table):
            there = [level for level in levels if key in existing[level]]
            by_op[key], inner[key] = there[i % len(there)], there[(i + 1) % len(there)]
        self.assertGreater(len(set(by_op.values())), 1)
        layers = ", layers: [{only: 1, %s}]" % ", ".join(f"{key}: {level}" for key, level in inner.items() if key not in OUTSIDE_OF_LAYERS)
        self.expect_the_same(self.losses("mixed", selection(by_op, layers)), reference, "float32")
        self.assertEqual(self.table["linear"], [by_op["linear"], by_op["linear"], inner["linear"], by_op["linear"]])

    def test_levels_can_be_mixed_by_module(self):
        """Each module with products has another level than its neighbors, and in one layer one of them has yet
        another level."""
        reference = self.reference()
        levels = [level for level, keys in self.existing_in("float32").items() if {"linear", "rms_norm"} <= set(keys)]
        first, second, third = levels[-3:]
        names = {"attention.qkv": second, "attention.output": third, "mlp.gate_up": third, "mlp.down": first, "head": second}
        lines = ["{only: %s, linear: %s}" % line for line in names.items()]
        lines += [f"{{only: blocks.1.mlp.down, linear: {third}}}", f"{{only: norm, rms_norm: {second}}}", f"{{only: blocks.0-1.norm2, rms_norm: {third}}}"]
        kernels = "kernels={default: aten, layers: [{only: 0-2, linear: %s}], modules: [%s]}" % (first, ", ".join(lines))
        self.expect_the_same(self.losses("modules", kernels, "profile.steps=2-2"), reference, "float32")
        for name, level in names.items():
            shown = ["-", level, level, level] if name != "head" else [level, "-", "-", "-"]
            if name == "mlp.down":
                shown[2] = third
            self.assertEqual(self.module_levels["linear", name], shown)
        self.assertEqual(self.module_levels["rms_norm", "norm2"], ["-", third, third, "aten"])

        # The profile has the names of the ops that ran: products of each layer, and those outside of layers.
        calls = {}
        with open(f"{self.folder}/modules/profile/rank-0.jsonl", encoding="utf-8") as file:
            for line in map(json.loads, file):
                if line.get("op") == "linear" and not line["backward"]:
                    key = line["layer"], line["level"]
                    calls[key] = calls.get(key, 0) + line["calls"]
        expected = {}
        for name, level in names.items():
            for layer in [None] if name == "head" else range(3):
                key = layer, third if (layer, name) == (1, "mlp.down") else level
                expected[key] = expected.get(key, 0) + 1
        self.assertEqual(calls, expected)


if __name__ == "__main__":
    unittest.main()
