# SPDX-License-Identifier: MIT
"""Tries advice by short runs. The configuration without it and the one with it take turns, so that both see the same machine."""
import statistics
import typing

from advice import Advice
from bad_input import BadInput

LEAST = 0.01  # share of a step that must be won for advice to be kept


class Trial(typing.NamedTuple):
    advice: Advice
    before: float  # milliseconds of a step, the median of the turns
    after: float
    kept: bool


def merged(overrides, added):
    """Returns the overrides with the added ones, which replace overrides of the same key and of keys below it."""
    keys = [override.partition("=")[0] for override in added]
    stays = [old for old in overrides if not any(old.partition("=")[0] == key or old.startswith(key + ".") for key in keys)]
    return (*stays, *added)


def try_advice(advices, measure, turns, say):
    """Returns the trials in the order of the advice, and the overrides that won. Each trial starts from what was kept before it."""
    kept, trials = (), []
    for advice in advices:
        changed = merged(kept, advice.overrides)
        if advice.changes or changed == kept:
            continue
        times = {kept: [], changed: []}
        try:
            for turn in range(turns):
                for overrides in (kept, changed) if turn % 2 == 0 else (changed, kept):
                    say(f"trial of {advice.rule}, turn {turn + 1} of {turns}: {' '.join(overrides) or 'the configuration as it is'}")
                    times[overrides].append(measure.take_run(overrides, "trial", profile=False).step)
        except BadInput as bad:  # what won before stays
            say(f"{advice.rule} is not kept, because a run of its trial failed: {bad}")
            continue
        before, after = (statistics.median(times[overrides]) for overrides in (kept, changed))
        # The times of one machine scatter. That all runs of one side are shorter by chance is 1 in 20 with three turns.
        wins = after < (1 - LEAST) * before and max(times[changed]) < min(times[kept])
        trials.append(Trial(advice, before, after, wins))
        kept = changed if wins else kept
    return trials, kept


def lines(trials):
    """Yields a table of what was predicted and what was measured."""
    yield f"{'advice':<18} {'predicted gain':>16} {'measured gain':>16} {'ms before':>12} {'ms after':>12}  "
    for trial in trials:
        predicted = "unknown" if trial.advice.milliseconds is None else f"{trial.advice.milliseconds:.2f}"
        yield (f"{trial.advice.rule:<18} {predicted:>16} {trial.before - trial.after:>16.2f} {trial.before:>12.2f} {trial.after:>12.2f}  "
               f"{'kept' if trial.kept else 'not kept'}")  # fmt: skip
