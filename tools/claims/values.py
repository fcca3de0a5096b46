# SPDX-License-Identifier: MIT
"""Computes what a claim says from rows of benchmarks, and the verdict on it."""
import math
import statistics
import typing

from checked_values import is_finite
from claims_file import LARGEST, TIMES, plain
from measure import Failed

CONFIDENCE = 0.9
HOLDS, REFUSED, UNDECIDED = "holds", "refused", "undecided"


class Estimate(typing.NamedTuple):
    value: float
    low: float
    high: float


def chosen(side, rows):
    """Returns {level: rows of the command that have the values of `side`}. Rows without a level are together."""
    groups = {}
    for row in rows[side["rows"]]:
        if all(row.get(key) in (value if isinstance(value, list) else [value]) for key, value in side.items() if key != "rows"):
            groups.setdefault(row.get("level"), []).append(row)
    return groups


def total(rows, names):
    """Returns the sum of these values of all rows, with the sums of their 10 % and 90 % quantiles if the rows have them."""
    sums = []
    for ending in ("", "_p10", "_p90"):
        values = [row.get(name + ending, row.get(name)) for row in rows for name in names]
        if not all(is_finite(value, LARGEST) and value > 0 for value in values):
            return None
        sums.append(float(sum(values)))
    return Estimate(*sums)


def least_of(side, groups, names, count):
    """Returns the smallest amount of the levels. A level without as many rows as others lacks a direction, and is left out."""
    totals = [total(rows, names) for rows in groups.values() if len(rows) == count]
    found = [each for each in totals if each]
    if not found:
        reasons = [str(row["not_timed"]) for rows in groups.values() for row in rows if "not_timed" in row]
        wanted = ", ".join(f"{key}: {value}" for key, value in side.items())
        raise Failed(f"no row has {' and '.join(names)} for {wanted}" + (f"; not timed: {reasons[0]:.160}" if reasons else ""))
    return min(found)


def untimed(side, rows):
    """Returns the levels of this side that are not timed, each with its reason."""
    return {str(level): str(row["not_timed"]) for level, level_rows in chosen(side, rows).items() for row in level_rows if "not_timed" in row}


def ratio(slower, faster, names, rows, unit):
    """Returns `slower` / `faster`, or the percentage that `faster` is less, with the interval that the quantiles allow."""
    groups = [chosen(side, rows) for side in (slower, faster)]
    count = max((len(level_rows) for group in groups for level_rows in group.values()), default=0)
    a, b = (least_of(side, group, names, count) for side, group in zip((slower, faster), groups))
    times = Estimate(a.value / b.value, a.low / b.high, a.high / b.low)
    return times if unit == TIMES else Estimate(*(100 * (1 - 1 / value) for value in times))


def interval(values):
    """Returns the order statistics between which the median of all turns lies with a probability of 90 %, if turns are independent
    (Conover, Practical Nonparametric Statistics, 3.2). Fewer than 5 turns give their whole range."""
    ordered, count = sorted(values), len(values)
    outside = [2 * sum(math.comb(count, i) for i in range(left_out + 1)) / 2**count for left_out in range((count + 1) // 2)]
    left_out = max(sum(share <= 1 - CONFIDENCE for share in outside) - 1, 0)
    return ordered[left_out], ordered[count - 1 - left_out]


def median_of_turns(turns):
    """Returns the median of several turns with its interval. One turn has the interval of its quantiles."""
    found = turns[0]
    if len(turns) > 1:
        values = [turn.value for turn in turns]
        found = (statistics.median(values), *interval(values))
    return Estimate(*(float(f"{value:.4g}") for value in found))


def verdict(found, least):
    """A claim holds if the whole interval reaches it, and is refused if no part of the interval does."""
    return HOLDS if found.low >= least else REFUSED if found.high < least else UNDECIDED


def sets_of(side, rows):
    """Returns how many copies of inputs and weights calls take in turn, the fewest of the chosen rows; nothing if no row says it."""
    return min((row["sets"] for level_rows in chosen(side, rows).values() for row in level_rows if isinstance(row.get("sets"), int)), default=None)


def machine_of(rows, processor):
    """Returns the device that the rows name, or the processor for rows without one."""
    names = [str(row["device"]) for command_rows in rows.values() for row in command_rows if row.get("device") not in (None, "", "cpu")]
    return plain((names or [processor])[0][:80])
