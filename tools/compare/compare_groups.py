# SPDX-License-Identifier: MIT
"""Compares two groups of runs, such as three seeds each: losses at the end, and times of steps, with intervals over runs."""
import numpy

import configurations
import verdict
from bad_input import BadInput
from block_bootstrap import middle_mean
from compare_runs import FEWEST_STEPS
from output import say, say_list
from run_metrics import RunMetrics
from welch_interval import difference

FEWEST_RUNS = 3  # of a group, for a verdict
LAST_SHARE = 10  # the training loss of a run is the mean of its last tenth of steps
OF_SEEDS = ("run.seed",)  # keys that runs of a group may differ in


def compare(first, second, options):
    """Prints what differs between two lists of folders of runs and returns the verdict."""
    folders, groups = (first, second), []
    for letter, paths in zip("AB", folders):
        groups.append([RunMetrics(folder) for folder in paths])
        for number, (folder, run) in enumerate(zip(paths, groups[-1]), 1):
            say(f"{letter}{number}: {folder}: steps {min(run.steps)} to {max(run.steps)}")
            for note in run.notes:
                say(f"   {note}")
    print_configurations(folders)
    steps = sorted(set.intersection(*({*run.steps} for group in groups for run in group)))
    found = []
    if options.only != "times":
        found.append(compare_losses(groups, folders, steps, options))
    if options.only != "losses":
        found.append(compare_times(groups, options))
    return verdict.most_important(found)


def print_configurations(folders):
    """Prints the keys in which runs of a group differ beside their seeds, and those in which the groups differ."""
    values = [[configurations.values_of(folder) for folder in paths] for paths in folders]
    if any(each is None for group in values for each in group):
        say("configuration: not compared, because a run has no resolved.yaml")
        return
    for letter, group in zip("AB", values):
        for number, each in enumerate(group[1:], 2):
            lines = configurations.differences(group[0], each, OF_SEEDS)
            if lines:
                say_list(f"configuration: {len(lines)} keys beside run.seed differ within {letter} ({letter}1, {letter}{number})", lines)
    lines = configurations.differences(values[0][0], values[1][0], OF_SEEDS)
    if lines:
        say_list(f"configuration: {len(lines)} keys beside run.seed differ (A1, B1)", lines)
    else:
        say("configuration: equal beside run.seed")


def refuse_copies(groups, folders, steps):
    """Two runs of one seed are one sample of the loss, so that they would make the interval too narrow."""
    for group, paths in zip(groups, folders):
        seen = {}
        for run, folder in zip(group, paths):
            losses = tuple(run.steps[step]["loss"] for step in steps)
            if losses in seen:
                raise BadInput(f"{seen[losses]} and {folder} have equal losses in all {len(steps)} common steps, so that they are one run for a "
                               "comparison of losses; expected another seed each, or --only times")
            seen[losses] = folder


def compare_losses(groups, folders, steps, options):
    diverged = [[has_diverged(run) for run in group] for group in groups]
    if any(map(any, diverged)):
        return report_diverged(diverged)
    if not steps:
        say("losses: the runs have no step in common")
        return verdict.UNDECIDED
    refuse_copies(groups, folders, steps)
    ends = [max(run.steps) for group in groups for run in group]
    if min(ends) < max(ends):
        say(f"losses: runs end between step {min(ends)} and step {max(ends)}, and no loss after step {steps[-1]} counts")
    last = steps[-max(1, len(steps) // LAST_SHARE):]
    finite = [step for step in last if all(run.steps[step]["loss"] is not None for group in groups for run in group)]
    if len(finite) < len(last):
        say(f"losses: {len(last) - len(finite)} of the last {len(last)} steps are left out, because the loss of a run is not finite in them")
    if 2 * len(finite) < len(last):
        say(f"losses: {verdict.UNDECIDED}: expected at least half of these steps")
        return verdict.UNDECIDED
    word = report_losses(f"training loss, mean of {len(finite)} steps up to {finite[-1]}", [[mean_of(run, finite) for run in group] for group in groups], options)
    evaluated = set.intersection(*({*run.evaluations} for group in groups for run in group))
    if evaluated and max(evaluated) < last[0] - 1:  # an evaluation after step n is of the weights with which step n + 1 begins
        say(f"validation loss: does not count, because the last that all runs have is after step {max(evaluated)}, before the last {len(last)} steps")
    elif evaluated:  # held-out data count where there are any
        step = max(evaluated)
        word = report_losses(f"validation loss after step {step}", [[run.evaluations[step] for run in group] for group in groups], options)
    return word


def has_diverged(run):
    """Returns whether the loss of a run is not finite at its end: on held-out data where they were evaluated after its last step."""
    end = max(run.steps)
    return (run.evaluations[end] if end in run.evaluations else run.steps[end]["loss"]) is None


def report_diverged(diverged):
    """Prints how many runs have diverged. B is worse if a larger share of it has, and better if all of A have and none of B."""
    shares = [sum(group) / len(group) for group in diverged]
    all_of_first = shares == [1, 0] and min(map(len, diverged)) >= FEWEST_RUNS
    word = verdict.WORSE if shares[1] > shares[0] else verdict.BETTER if all_of_first else verdict.UNDECIDED
    names = [f"{letter}{number}" for letter, group in zip("AB", diverged) for number, lost in enumerate(group, 1) if lost]
    say(f"losses: {word}: the loss is not finite at the end of {', '.join(names)}: {sum(diverged[0])} of {len(diverged[0])} runs of A "
        f"and {sum(diverged[1])} of {len(diverged[1])} of B")
    return word


def mean_of(run, steps):
    return float(numpy.mean([run.steps[step]["loss"] for step in steps]))


def report_losses(name, values, options):
    lost = [sum(value is None for value in group) for group in values]
    if any(lost):
        say(f"{name}: {verdict.UNDECIDED}: not finite in {lost[0]} of {len(values[0])} runs of A and {lost[1]} of {len(values[1])} of B")
        return verdict.UNDECIDED
    means, counts = [numpy.mean(group) for group in values], [len(group) for group in values]
    say(f"{name}: A, B: mean {means[0]:.6g}, {means[1]:.6g}; {shown(values[0])}; {shown(values[1])}")
    if min(counts) < FEWEST_RUNS:
        return too_few(name, counts)
    found = difference(*values, verdict.CONFIDENCE)
    word = verdict.losses_verdict(found, abs(means[0]) * options.loss_resolution / 100)
    say(f"   {word}: B - A = {found.estimate:+.6g} ({100 * verdict.CONFIDENCE:g} % Welch interval over runs: {found.low:+.6g} to {found.high:+.6g})")
    return word


def shown(values):
    return " ".join(f"{value:.6g}" for value in values)


def too_few(name, counts):
    say(f"{name}: {verdict.UNDECIDED}: {counts[0]} runs of A and {counts[1]} of B, expected at least {FEWEST_RUNS} of each")
    return verdict.UNDECIDED


def compare_times(groups, options):
    times = [[run.milliseconds(options.warm_up) for run in group] for group in groups]
    steps = sorted(set.intersection(*({*run_times} for group in times for run_times in group)))
    if len(steps) < FEWEST_STEPS:
        say(f"times: {verdict.UNDECIDED}: {len(steps)} steps that all runs have after {options.warm_up} of warm-up, expected at least {FEWEST_STEPS}")
        return verdict.UNDECIDED
    logarithms = [[float(middle_mean(numpy.log([run_times[step] for step in steps]))) for run_times in group] for group in times]
    for letter, group in zip("AB", logarithms):
        say(f"times: {letter}: ms of a step of each run: {' '.join(f'{value:.2f}' for value in numpy.exp(group))}")
    counts = [len(group) for group in groups]
    if min(counts) < FEWEST_RUNS:
        return too_few("times", counts)
    found = difference(*logarithms, verdict.CONFIDENCE)
    word = verdict.times_verdict(found, options)
    say(f"times: {word}: B against A {verdict.interval_text(found, of='Welch interval')} over runs, in {len(steps)} steps after the warm-up")
    return word
