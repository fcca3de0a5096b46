# SPDX-License-Identifier: MIT
"""Measured times of the ops of a step. Every time is three numbers: the 10 % quantile of what was measured, its mean, and the 90 %
quantile."""
from machine_file import OP

NOTHING = (0.0, 0.0, 0.0)
# Its shape is the number of all gradients, so that every number of layers would need a time of its own. It counts to what is between ops,
# which grows with the layers too.
WITHOUT_PRICE = ("sum_of_squares",)


def plus(*times):
    return tuple(sum(values) for values in zip(*times)) if times else NOTHING


def scaled(time, factor):
    return tuple(factor * value for value in time)


def total(parts):
    """The sum, or None if a part has no number."""
    parts = list(parts)
    return None if any(part is None for part in parts) else plus(NOTHING, *parts)


def name_of(op):
    return f"{op['op']} {op['shape']} ({op['level']}, {op['dtype']})"


def calls_in(facts, part):
    return sum(op["calls"] for op in facts["ops"] if op["part"] == part)


class Prices:
    """Times of ops by the ranks and threads that measured them. What has none is put into `missing`."""

    def __init__(self, file, ranks, threads):
        self.ops = {tuple(row[name] for name in OP): row for row in file.rows_of_kind("op", ranks, threads)}
        self.missing = []

    def seconds_of(self, op, direction):
        row = self.ops.get(tuple(op[name] for name in OP))
        if row is None or "not_timed" in row:
            why = "not measured" if row is None else f"not timed, because {' '.join(row['not_timed'].split())[:200]}"
            if f"{name_of(op)}: {why}" not in self.missing:
                self.missing.append(f"{name_of(op)}: {why}")
            return NOTHING
        return tuple(row[direction]) if row[direction] else NOTHING

    def sum(self, facts, part, direction):
        ops = [op for op in facts["ops"] if op["part"] == part and op["op"] not in WITHOUT_PRICE]
        return plus(NOTHING, *(scaled(self.seconds_of(op, direction), op["calls"]) for op in ops))


def op_parts(facts, prices):
    """The parts of a step that are ops, of all micro-batches, and the names of what was not measured by part."""
    parts, missing = {}, {}
    for name, sums in {
        "forward ops": (("forward", "forward"),),
        "backward ops": (("forward", "backward"), ("backward", "forward")),
        "recomputation": (("recomputation", "forward"),),
        "optimizer": (("optimizer", "forward"),),
    }.items():
        prices.missing = []
        times = 1 if name == "optimizer" else facts["micro_batches"]
        parts[name] = scaled(plus(*(prices.sum(facts, part, direction) for part, direction in sums)), times)
        if prices.missing:
            parts[name], missing[name] = None, prices.missing
    return parts, missing
