# SPDX-License-Identifier: MIT
"""What W&B and MLflow get of a run: numbers of steps and evaluations, and the configuration. Nothing of it is code or a file."""
import json
import math
import re

from checked_values import is_finite


def clean(name):
    """Returns a name that both accept. MLflow's may be the name of a file, and W&B keeps names that begin with _ to itself."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100].strip("._") or "unnamed"


def values_of(record):
    """Returns {name: number} of a step or an evaluation, and nothing of other lines."""
    step = record.get("step")
    if type(step) is not int or abs(step) >= 1 << 53 or not ("loss" in record or "validation_loss" in record):
        return {}
    members = [(key, value) for name, value in record.items() if (key := clean(name)) != "step"]
    if isinstance(record.get("phases"), dict):
        members += [("phases/" + clean(name), value) for name, value in record["phases"].items()]
    return {name: number_of(value) for name, value in members if value is None or type(value) in (int, float)}


def number_of(value):
    """A number that is not finite is null in metrics.jsonl."""
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def scalar_of(text):
    """Returns a value of resolved.yaml as a number, a truth value or a text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (str, bool)) or is_finite(value) else text
