# SPDX-License-Identifier: MIT
"""The common part of comparisons with independent implementations: trains a model and exports it."""

import json
import os
import subprocess

from safetensors.torch import load_file

TRAIN = os.environ.get("STRATA_TEST_TRAIN") or os.path.abspath("trainer/train")
EXPORT = os.environ.get("STRATA_TEST_EXPORT") or os.path.abspath("tools/weights/export")


def run_program(*command):
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def exported(run, folder):
    """Returns the weights of a run in fp64, by way of `folder`."""
    run_program(EXPORT, run, folder)
    return {name: value.double() for name, value in load_file(folder + "/model.safetensors").items()}


def trained(folder, config, *overrides):
    """Trains into `folder`/run. Returns the exported weights in fp64 and the last evaluation."""
    with open(folder + "/config.yaml", "w", encoding="utf-8") as file:
        file.write(config)
    run_program(TRAIN, folder + "/config.yaml", *overrides)
    weights = exported(folder + "/run", folder + "/weights")
    with open(folder + "/run/metrics.jsonl", encoding="utf-8") as file:
        return weights, [json.loads(line) for line in file if "validation_loss" in line][-1]
