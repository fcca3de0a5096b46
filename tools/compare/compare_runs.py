# SPDX-License-Identifier: MIT
"""Compares two runs: configurations, losses bit for bit, and the times of steps."""
import os
import struct

import numpy

import configurations
import verdict
from block_bootstrap import interval
from output import say, say_list
from run_metrics import RunMetrics

FEWEST_STEPS = 60  # for an interval: blocks of three steps


def compare(first, second, options):
    """Prints what differs between two folders of runs and returns the verdict."""
    runs = [RunMetrics(folder) for folder in (first, second)]
    for letter, folder, run in zip("AB", (first, second), runs):
        say(f"{letter}: {folder}: steps {min(run.steps)} to {max(run.steps)}")
        for note in run.notes:
            say(f"   {note}")
    print_configurations(first, second)
    found = []
    if options.only != "times":
        found.append(compare_losses(*runs))
    if options.only != "losses":
        found.append(compare_times(*runs, options))
    return verdict.most_important(found)


def print_configurations(first, second):
    values = [configurations.values_of(folder) for folder in (first, second)]
    if None in values:
        say(f"configuration: not compared, because there is no {os.path.join((first, second)[values.index(None)], 'resolved.yaml')}")
        return
    lines = configurations.differences(*values)
    if lines:
        say_list(f"configuration: {len(lines)} keys differ (A, B)", lines)
    else:
        say("configuration: equal")


def first_part(first, second):
    """Returns the first key at which two dictionaries differ bit for bit, of those that both have, or nothing."""
    bits = lambda value: struct.pack("<d", value) if isinstance(value, float) else value
    return next((step for step in sorted(first.keys() & second.keys()) if bits(first[step]) != bits(second[step])), None)


def compare_losses(first, second):
    series = [{"losses": {step: record["loss"] for step, record in run.steps.items()},
               "gradient norms": {step: record["gradient_norm"] for step, record in run.steps.items()},
               "weights": run.weights} for run in (first, second)]
    common = sorted(first.steps.keys() & second.steps.keys())
    parts = {name: first_part(series[0][name], series[1][name]) for name in series[0]}
    if not common:
        say("losses: the runs have no step in common")
        return verdict.UNDECIDED
    if all(step is None for step in parts.values()):
        say(f"losses: equal bit for bit, as gradient norms and hashes of weights are, in {len(common)} common steps")
        return verdict.EQUAL
    for name, step in parts.items():
        values = f" (A, B: {series[0][name][step]}, {series[1][name][step]})" if step is not None and name != "weights" else ""
        say(f"{name}: " + (f"part at step {step}{values}" if step is not None else "equal bit for bit where both have them"))
    if parts["losses"] is not None:
        print_distance(*(run["losses"] for run in series), [step for step in common if step >= parts["losses"]])
    return verdict.DIFFERENT


def print_distance(first, second, steps):
    """Prints the differences of losses in these steps. Losses that are not finite are left out."""
    steps = [step for step in steps if None not in (first[step], second[step])]
    if not steps:
        return
    differences = numpy.array([second[step] - first[step] for step in steps])
    most = int(numpy.argmax(abs(differences)))
    say(f"   farthest apart at step {steps[most]}: B - A = {differences[most]:+.6g}")
    if len(steps) >= FEWEST_STEPS:
        found = interval(differences, verdict.CONFIDENCE)
        say(f"   B - A from where they part: {found.estimate:+.6g} ({100 * verdict.CONFIDENCE:g} % interval: {found.low:+.6g} to {found.high:+.6g})")


def paired(first, second):
    """Returns the times of the steps that both runs have, in their order."""
    steps = sorted(first.keys() & second.keys())
    return numpy.array([first[step] for step in steps]), numpy.array([second[step] for step in steps])


def compare_times(first, second, options):
    times = paired(*(run.milliseconds(options.warm_up) for run in (first, second)))
    count = len(times[0])
    if count < FEWEST_STEPS:
        say(f"times: {verdict.UNDECIDED}: {count} steps that both have after {options.warm_up} of warm-up, expected at least {FEWEST_STEPS}")
        return verdict.UNDECIDED
    found = verdict.relative_times(*times)
    word = verdict.times_verdict(found, options)
    say(f"times: {word}: B against A {verdict.interval_text(found)} in {count} steps after the warm-up")
    medians, (a, b) = [numpy.median(series) for series in times], [series.sum() / 1000 for series in times]
    say(f"   A, B: median {medians[0]:.2f}, {medians[1]:.2f} ms; all these steps {a:.1f}, {b:.1f} s ({100 * (b / a - 1):+.2f} %)")
    if word in (verdict.SLOWER, verdict.FASTER):
        say("   the interval knows only these two runs: on a machine that others use, start both several times in turn, and compare the groups (A... -- B...)")
    return word
