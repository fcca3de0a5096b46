# SPDX-License-Identifier: MIT
"""Compares two plans of kernels: what they were measured for, which op has another level, and which rows take another time."""
import math

import verdict
from bad_input import stop
from output import say, say_list
from plan_rows import HEAD, PlanRows

NO_LEVEL = "none"


def compare(first_path, second_path, options):
    """Prints what differs between two plans and returns the verdict. A plan has one median for each row and no interval, so times
    that differ give no verdict of slower or faster."""
    first, second = PlanRows(first_path), PlanRows(second_path)
    rows = [set(plan.times) | set(plan.refused) for plan in (first, second)]
    if not rows[0] & rows[1]:
        stop(f"{first_path} and {second_path} have no op and shape in common; expected plans of one model", 2)
    say(f"A: {first_path}")
    say(f"B: {second_path}")
    for key in HEAD:
        if first.head[key] != second.head[key]:
            say(f"{key} differs: A: {first.head[key]}; B: {second.head[key]}")
    for name, these, others in (("A", *rows), ("B", *reversed(rows))):
        if alone := sorted(these - others):
            say_list(f"{len(alone)} rows are only in {name}", list(map(" ".join, alone)))
    levels = [f"{op}: A: {first.levels.get(op, NO_LEVEL)}; B: {second.levels.get(op, NO_LEVEL)}"
              for op in sorted({**first.levels, **second.levels}) if first.levels.get(op) != second.levels.get(op)]  # fmt: skip
    if levels:
        say_list(f"{len(levels)} ops have another level", levels)
    lost = [f"{' '.join(row)}: {a.path} has no time: {a.refused[row]}" for a, b in ((first, second), (second, first))
            for row in sorted(a.refused) if row in b.times]  # fmt: skip
    if lost:
        say_list("timed in one file only", lost)
    largest = compare_times(first.times, second.times, options.least)
    if levels or lost:
        return verdict.DIFFERENT
    if largest <= math.log1p(options.resolution / 100):
        return verdict.EQUAL
    say("a plan has one median for each row: repeat `bench kernels --json` in turn on both sides, and compare these files")
    return verdict.UNDECIDED


def compare_times(first, second, least):
    """Prints rows whose times differ by more than `least` percent, those that cost the most time first. Returns the largest
    difference as a logarithm, which is infinite if no row has times in both."""
    common = [row for row in first if row in second]
    apart = {row: math.log(second[row] / first[row]) for row in common}
    shown = sorted((row for row in common if abs(apart[row]) > math.log1p(least / 100)), key=lambda row: -abs(second[row] - first[row]))
    say_list(f"{len(shown)} of {len(common)} rows in both take another time, in microseconds of all calls",
             [f"{' '.join(row)}: A: {first[row]:.4g}; B: {second[row]:.4g}; {100 * math.expm1(apart[row]):+.2f} %" for row in shown])  # fmt: skip
    return max(map(abs, apart.values()), default=math.inf)
