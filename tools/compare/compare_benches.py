# SPDX-License-Identifier: MIT
"""Compares two files of benchmarks row by row. Repetitions are paired in their order, so commands that took turns share
what slowed the machine down."""
import math

import verdict
from bad_input import stop
from bench_rows import BenchRows
from output import say, say_list

FEWEST_REPETITIONS = 5
ORDER = (verdict.SLOWER, verdict.FASTER, verdict.UNDECIDED, verdict.EQUAL)  # of the lines


def compare(first_path, second_path, options):
    """Prints what differs between two files and returns the verdict."""
    first, second = BenchRows(first_path), BenchRows(second_path)
    if not first.kinds & second.kinds:
        kinds = [", ".join(sorted(file.kinds)) for file in (first, second)]
        stop(f"{first_path} is of {kinds[0]} and {second_path} of {kinds[1]}; expected files of one benchmark", 2)
    common = [row for row in first.times if row in second.times]
    lost = [f"{row}: {a.path} has no time: {a.refused[row]}" for a, b in ((first, second), (second, first)) for row in a.refused if row in b.times]
    if not common and not lost:
        stop(f"{first_path} and {second_path} have no row in common, the first is of {next(iter(first.times or first.refused))}; "
             "expected the same work in both", 2)
    say(f"A: {first_path}")
    say(f"B: {second_path}")
    for key in {**first.circumstances, **second.circumstances}:
        values = [", ".join(sorted(file.circumstances.get(key, {"none"}))) for file in (first, second)]
        if values[0] != values[1]:
            say(f"{key} differs: A: {values[0]}; B: {values[1]}")
    for name, rows, others in (("A", first, second), ("B", second, first)):
        if alone := [row for row in rows.times if row not in others.times and row not in others.refused]:
            say_list(f"{len(alone)} rows are only in {name}", alone)
    if lost:
        say_list("timed in one file only", lost)
    words = [verdict.DIFFERENT] * bool(lost) + compare_rows([(row, first.times[row], second.times[row]) for row in common], options)
    return verdict.most_important(words)


def compare_rows(rows, options):
    """Prints a line for each row, those that are slower first and then by their differences, and returns their verdicts. With n
    rows, the error of one interval is an n-th (Bonferroni), so that all together are as sure as one alone."""
    confidence = 1 - (1 - verdict.CONFIDENCE) / max(1, len(rows))
    found = []
    for row, a, b in rows:
        count = min(len(a), len(b))
        other = f" of {len(a)} and {len(b)}" if len(a) != len(b) else ""
        if count < FEWEST_REPETITIONS:
            estimate = math.log(sorted(b[:count])[count // 2] / sorted(a[:count])[count // 2])
            found.append((estimate, verdict.UNDECIDED, f"{row}: B against A {100 * math.expm1(estimate):+.2f} %, {count} pairs{other}"))
            continue
        interval = verdict.relative_times(a[:count], b[:count], confidence)
        word = verdict.times_verdict(interval, options)
        found.append((interval.estimate, word, f"{row}: B against A {verdict.interval_text(interval, confidence)}, {count} pairs{other}"))
    found.sort(key=lambda each: (ORDER.index(each[1]), -abs(each[0])))
    words = [word for _, word, _ in found]
    say_list(f"{len(found)} rows in both", [f"{word}: {text}" for _, word, text in found])
    if min((min(len(a), len(b)) for _, a, b in rows), default=FEWEST_REPETITIONS) < FEWEST_REPETITIONS:
        say(f"a row needs at least {FEWEST_REPETITIONS} measurements in each file: repeat both commands in turn, with the same --json files")
    return words
