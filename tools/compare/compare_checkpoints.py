# SPDX-License-Identifier: MIT
"""Compares two checkpoints tensor by tensor, whatever numbers of ranks have written them. Weights come first."""
import math
import typing

import numpy

import verdict
from checkpoint_files import Checkpoint, numbers
from output import say, say_list

CHUNK = 1 << 22  # elements that are in memory at once
# What a tensor holds of its parameter or module: weights, their moving average, moments, then the histories of delayed scales.
ORDER = ("master", "average", "first_moment", "second_moment", "amax_history")


class Difference(typing.NamedTuple):
    """How two tensors of one shape and type differ, bit for bit."""
    count: int
    largest: float
    relative_l2: float  # |B - A| / |A|
    first: list  # index


def difference(first, second, name):
    """Returns the difference of a tensor in two checkpoints, or nothing if all bits are equal."""
    dtype, shape = first.tensors[name]["dtype"], first.tensors[name]["shape"]
    count, largest, squares, first_squares, at = 0, 0.0, 0.0, 0.0, None
    for begin in range(0, math.prod(shape), CHUNK):
        end = min(begin + CHUNK, math.prod(shape))
        bits = [checkpoint.bits(name, begin, end) for checkpoint in (first, second)]
        differ = numpy.flatnonzero(bits[0] != bits[1])
        a = numbers(bits[0], dtype)
        first_squares += float(numpy.sum(a * a))
        if not len(differ):
            continue
        at = begin + int(differ[0]) if at is None else at
        with numpy.errstate(invalid="ignore"):  # of infinite elements
            distance = numpy.abs(numbers(bits[1][differ], dtype) - a[differ])
        count, largest, squares = count + len(differ), numpy.maximum(largest, distance.max()), squares + float(numpy.sum(distance * distance))
    if at is None:
        return None
    relative = math.sqrt(squares / first_squares) if first_squares else math.inf
    return Difference(count, float(largest), relative, [int(index) for index in numpy.unravel_index(at, shape)])


def sorted_names(names):
    """Weights first, then in the order of names, with numbers as numbers."""
    def place(name):
        parameter, _, state = name.rpartition("/")
        return (ORDER.index(state) if state in ORDER else len(ORDER), state,
                [(int(part), "") if part.isdecimal() else (-1, part) for part in parameter.split(".")])
    return sorted(names, key=place)


def compare(first_folder, second_folder, _):
    """Prints what differs between two folders of checkpoints and returns the verdict."""
    first, second = Checkpoint(first_folder), Checkpoint(second_folder)
    for letter, checkpoint in zip("AB", (first, second)):
        say(f"{letter}: {checkpoint.folder}: step {checkpoint.step}, {len(checkpoint.tensors)} tensors")
    lines, equal = [], 0
    for name in sorted_names(first.tensors.keys() | second.tensors.keys()):
        line = line_of(first, second, name)
        equal += not line
        lines += [f"{name}: {line}"] if line else []
    say(f"{equal} tensors are equal bit for bit, {len(lines)} are not")
    if lines:
        say_list("weights (master) first, then moving averages, moments and histories of delayed scales", lines)
    return verdict.DIFFERENT if lines else verdict.EQUAL


def line_of(first, second, name):
    """Returns how a tensor differs, or an empty text."""
    a, b = (checkpoint.tensors.get(name) for checkpoint in (first, second))
    if a is None or b is None:
        return f"missing in {'A' if a is None else 'B'}"
    if a["shape"] != b["shape"]:
        return f"shape {a['shape']} in A, {b['shape']} in B"
    if a["dtype"] != b["dtype"]:
        return f"type {a['dtype']} in A, {b['dtype']} in B"
    found = difference(first, second, name)
    if not found:
        return ""
    return (f"{found.count} of {math.prod(a['shape'])} elements differ, by at most {found.largest:.4g}, relative L2 {found.relative_l2:.3g}, "
            f"first at {found.first}")
