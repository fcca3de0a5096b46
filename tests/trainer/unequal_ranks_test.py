# SPDX-License-Identifier: MIT
"""Ranks that differ in ten things, as hosts may on which somebody has changed a file or a command, are refused before they
train: with 2, and with the values of both."""

import os
import shutil
import subprocess
import unittest

from training_runs import FAMILIES, TRAIN, TrainingRuns, command_of_ranks, expect_fault

# Each kind: the overrides of rank 1, and how the two values are told.
OVERRIDES = {
    "batch": (["batch=32"], "batch: 16.*batch: 32"),
    "steps": (["steps=21"], "steps: 20.*steps: 21"),
    "seed": (["run.seed=7"], "seed: 1.*seed: 7"),
    "dtype": (["precision.compute=bfloat16"], "compute: float32.*compute: bfloat16"),
    "width of the model": (["model.width=48"], "width: 24.*width: 48"),
    "optimizer": (["optimizer.learning_rate=2e-2"], "learning_rate: 0.01.*learning_rate: 0.02"),
    "level of the kernels": (["kernels.default=torchscript"], "default: aten.*default: torchscript"),
    "sharding": (["sharding.strategy=none"], "strategy: full.*strategy: none"),
}


class UnequalRanksTest(TrainingRuns):
    def refused(self, kind, second, hosts=("", ""), overrides=()):
        """Returns the errors of two ranks that differ in `kind`: rank 1 has more overrides. Each finds its data in a folder of its own."""
        words = [["-wdir", host or self.folder, TRAIN, self.config("differ", 16), "run.device=cpu", *overrides] for host in hosts]
        command = command_of_ranks(1, *words[0], ":", "-n", "1", *words[1], *second)
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        expect_fault(self, "ranks differ in " + kind, 2, result.returncode, result.stdout + result.stderr)
        self.assertNotIn("loss: ", result.stdout)
        self.assertFalse(os.path.exists(self.path("differ", "metrics.jsonl")), "a rank has trained")
        return result.stderr

    def test_overrides(self):
        for kind, (overrides, values) in OVERRIDES.items():
            with self.subTest(kind):
                one, _, other = values.partition(".*")
                said = r"ranks differ in their configuration, line \d+: rank 0 has `.*%s.*`, rank 1 has `.*%s" % (one, other)
                self.assertRegex(self.refused(kind, overrides), said)

    def test_data(self):
        """One byte of a picture, or one token of a text, differs on one of two hosts."""
        hosts = [os.path.join(self.folder, "host%d" % rank) for rank in range(2)]
        for host in hosts:
            shutil.copytree(self.data, os.path.join(host, "data"))
        for family, file, place in (("vision", "train.images", 1000), ("language", "train.bin", 5000)):
            with self.subTest(family):
                with open(os.path.join(hosts[1], "data", file), "r+b") as changed:
                    changed.seek(place)
                    byte = changed.read(1)[0]
                    changed.seek(place)
                    changed.write(bytes([byte ^ 1]))
                overrides = [text.format(data="data") for text in FAMILIES[family]]
                overrides += ["data.train=data/train.bin", "data.validation=data/validation.bin"] if family == "language" else []
                self.assertRegex(self.refused("data of " + family, [], hosts, overrides), "ranks differ in their data, line 1: rank 0 has `.*`, rank 1 has `")


if __name__ == "__main__":
    unittest.main()
