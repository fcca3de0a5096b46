# SPDX-License-Identifier: MIT
"""The keys in which the configurations of two runs differ."""
import os

import yaml

from bad_input import BadInput

ABSENT = "absent"


def values_of(folder):
    """Returns {key: value} of resolved.yaml with keys such as model.width, or nothing if the run has no such file."""
    path = os.path.join(folder, "resolved.yaml")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        try:
            tree = yaml.safe_load(file)
        except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: of a date that does not exist
            raise BadInput(f"{path}: is not YAML, so that no configuration can be compared: {' '.join(str(error).split())}") from error
    return flattened(tree)


def flattened(tree, prefix=""):
    if not isinstance(tree, dict):
        return {prefix: tree}
    found = {}
    for key, value in tree.items():
        found |= flattened(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def differences(first, second, beside=()):
    """Returns lines `key: first, second` for the keys that differ, beside these. Runs always have different folders."""
    keys = [key for key in {**first, **second} if key not in ("run.folder", *beside) and first.get(key, ABSENT) != second.get(key, ABSENT)]
    return [f"{key}: {first.get(key, ABSENT)}, {second.get(key, ABSENT)}" for key in keys]
