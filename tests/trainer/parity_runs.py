# SPDX-License-Identifier: MIT
"""The common part of comparisons with independent implementations: trains a model and exports it."""

import json
import os
import subprocess

from safetensors.torch import load_file

TRAIN = os.path.abspath("trainer/train")
EXPORT = os.path.abspath("tools/weights/export")


def trained(folder, config, *overrides):
    """Trains into `folder`/run. Returns the exported weights in fp64 and the last evaluation."""
    with open(folder + "/config.yaml", "w", encoding="utf-8") as file:
        file.write(config)
    for command in ([TRAIN, folder + "/config.yaml", *overrides], [EXPORT, folder + "/run", folder + "/weights"]):
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
    weights = {name: value.double() for name, value in load_file(folder + "/weights/model.safetensors").items()}
    with open(folder + "/run/metrics.jsonl", encoding="utf-8") as file:
        return weights, [json.loads(line) for line in file if "validation_loss" in line][-1]
