# SPDX-License-Identifier: MIT
"""Reads a plan that `tools/strata plan` has written: the level of each op, and the times from which the levels follow."""
from bad_input import BadInput
from checked_values import is_finite
from strict_yaml import read_yaml

MOST_BYTES = 1 << 22
HEAD = ("config", "device", "torch", "kernels", "model")  # what a plan was measured for
ROW = ("op", "shape", "level")  # which row it is
LARGEST = 1e15  # microseconds
EXPECTED = "expected a plan that `tools/strata plan` has written"


class PlanRows:
    """`head` has {key: value}, `levels` {op: level}, `times` {row: microseconds of all its calls}, `refused` {row: why it was not
    timed}. A row is (op, shape, level)."""

    def __init__(self, path):
        self.path, self.times, self.refused = path, {}, {}
        content = content_of(path)
        self.require(isinstance(content, dict) and isinstance(content.get("measured"), list), "has no list `measured`")
        self.head = {key: content.get(key) for key in HEAD}
        for key, value in self.head.items():
            self.require(isinstance(value, str), f"{key} is {value!r:.80}, not a text")
        self.levels = content.get("levels")
        self.require(isinstance(self.levels, dict) and all(isinstance(word, str) for pair in self.levels.items() for word in pair),
                     "`levels` has something else than names of ops and levels")
        for number, row in enumerate(content["measured"], 1):
            self.read(f"row {number} of `measured`", row)

    def require(self, condition, words):
        if not condition:
            raise BadInput(f"{self.path}: {words}; {EXPECTED}")

    def read(self, which, row):
        self.require(isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ROW), f"{which} has not the texts {', '.join(ROW)}")
        name = tuple(row[key] for key in ROW)
        self.require(name not in self.times and name not in self.refused, f"{which} is there before")
        if "forward" not in row:
            self.refused[name] = str(row.get("not_timed", "no reason is given"))
            return
        uses, forward, backward = row.get("uses", 1), row["forward"], row.get("backward", 0)
        self.require(type(uses) is int and 0 < uses < LARGEST, f"{which} has uses {uses!r:.40}, not a number above 0")
        self.require(is_finite(forward, LARGEST) and forward > 0, f"{which} has forward {forward!r:.40}, not a number above 0")
        self.require(is_finite(backward, LARGEST) and backward >= 0, f"{which} has backward {backward!r:.40}, not a number")
        self.times[name] = uses * (forward + backward)


def content_of(path):
    """Returns what a file of YAML holds."""
    try:
        return read_yaml(path, MOST_BYTES)
    except BadInput as error:
        raise BadInput(f"{error}; {EXPECTED}") from error
