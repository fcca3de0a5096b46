# SPDX-License-Identifier: MIT
"""Rules on what a run does beside its steps: checkpoints, evaluations, profiles."""
import math
import statistics

from advice import Advice

MOST = 0.02  # share of a run that checkpoints, or evaluations, may take without advice


def rarely(evidence, cost, every):
    """Returns the least period, a multiple of the present one, with which the cost is at most half of MOST."""
    steps, needed = evidence.integer("steps", 1), cost / (MOST / 2 * evidence.compute)
    return steps if needed >= steps else min(steps, every * math.ceil(needed / every))


def spread(name, key, evidence, cost, what):
    """Returns the advice to do something with a cost in milliseconds more rarely, or None if it takes little of the run."""
    every = evidence.integer(key)
    if not every or not cost or cost / every <= MOST * evidence.compute:
        return None
    new = rarely(evidence, cost, every)
    if new <= every:
        return None
    reason = f"{what} {cost:.2f} ms and comes after every {every} steps of {evidence.compute:.2f} ms."
    return Advice(name, (f"{key}={new}",), cost / every - cost / new, 0, reason)


def checkpoints(evidence, measure):
    """Saves come so often that steps stand still for them."""
    return spread("checkpoints", "checkpoint.every", evidence, evidence.save_cost(), "A save stops the training for")


def evaluations(evidence, measure):
    """Evaluations come so often that much of the run is spent on them."""
    return spread("evaluations", "evaluation.every", evidence, evidence.evaluation_cost(), "An evaluation takes")


def profile(evidence, measure):
    """Many steps of the run are profiled, which makes them slower."""
    wanted, steps = evidence.value("profile.steps", "none"), max(1, evidence.integer("steps", 1))
    if wanted == "none":
        return None
    first, _, last = wanted.partition("-")
    try:
        share = min(1, (min(steps, int(last or first)) - int(first) + 1) / steps)
    except ValueError:
        return None
    times = dict(zip(evidence.run.steps.steps, evidence.run.steps.columns.get("milliseconds", ())))
    profiled = [times[record["step"]] for record in evidence.profiled if record["step"] in times]
    overhead = statistics.median(profiled) - evidence.compute if profiled and evidence.plain else None
    gain = overhead * share if overhead is not None else None
    if share < MOST if gain is None else gain < MOST * evidence.compute:
        return None
    reason = f"{share:.0%} of all steps are profiled"
    reason += f", and a profiled step takes {overhead:.2f} ms more than another." if overhead is not None else ", and no other step was seen."
    return Advice("profile", ("profile.steps=none",), gain, None, reason)
