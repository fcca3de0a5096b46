# SPDX-License-Identifier: MIT
"""What comparisons with independent implementations share: a model is trained and exported here."""

import json
import os
import subprocess

from safetensors.torch import load_file

TRAIN = os.path.abspath("trainer/train")
EXPORT = os.path.abspath("tools/export")


def trained(folder, config, *overrides):
    """The exported weights of a run into `folder`/run, in fp64, and its last evaluation."""
    with open(folder + "/config.yaml", "w", encoding="utf-8") as file:
        file.write(config)
    for command in ([TRAIN, folder + "/config.yaml", *overrides], [EXPORT, folder + "/run", folder + "/weights"]):
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    weights = {name: value.double() for name, value in load_file(folder + "/weights/model.safetensors").items()}
    with open(folder + "/run/metrics.jsonl", encoding="utf-8") as file:
        return weights, [json.loads(line) for line in file if "validation_loss" in line][-1]
