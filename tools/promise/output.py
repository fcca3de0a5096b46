# SPDX-License-Identifier: MIT
"""Prints a promise as a table, or makes it a line of JSON."""
import math

from bad_input import printable

MIB = 1 << 20


def rates(promise):
    """The highest one is infinite if the lower bound of a step is 0."""
    return None if promise.step is None else tuple(promise.facts["items_per_step"] / time if time else math.inf for time in reversed(promise.step))


def energy(promise, seconds):
    return promise.watts and seconds and tuple(promise.watts * time for time in seconds)


def finite(times):
    """JSON has no infinity."""
    return times and tuple(time if math.isfinite(time) else None for time in times)


def as_json(promise):
    facts = promise.facts
    memory = sum(part["bytes"] for part in facts["memory"])
    return {
        "device": facts["device"], "ranks": facts["ranks"], "threads_per_rank": promise.threads, "measured_ranks": promise.ranks,
        "memory_bytes": memory, "memory_margin_bytes": facts["memory_margin"],
        "step_seconds": promise.step, f"{facts['item']}_per_second": finite(rates(promise)),
        "hours": promise.run and tuple(time / 3600 for time in promise.run),
        "step_parts_seconds": promise.parts, "computation_seconds": promise.computation, "reading_seconds": promise.feed.step(),
        "evaluations_seconds": promise.evaluations, "checkpoints_seconds": promise.checkpoints,
        "watts": promise.watts, "step_joules": energy(promise, promise.step), "joules": energy(promise, promise.run), "missing": promise.missing, "extrapolated": promise.extrapolated,
    }  # fmt: skip


def spread(times, unit, factor=1.0):
    low, middle, high = (factor * time for time in times)
    return f"{middle:12,.4g} {unit:9} ({low:,.4g} to {high:,.4g})"


def row(name, times, unit, factor, whole):
    if times is None:
        return f"  {name:24} not measured"
    share = f"  {100 * times[1] / whole[1]:5.1f} %" if whole and whole[1] > 0 else ""
    return f"  {name:24} {spread(times, unit, factor)}{share}"


def lines(promise):
    facts = promise.facts
    memory = sum(part["bytes"] for part in facts["memory"])
    ranks = f"{facts['ranks']} rank{'s' if facts['ranks'] > 1 else ''}"
    yield f"promise for {ranks} of {facts['device']}, in means (10 % to 90 %):"
    left_out = "not promised, because of what is missing below"
    yield f"  memory of a rank         {memory / MIB:12,.2f} MiB       (at most {facts['memory_margin'] / MIB:,.2f} MiB more)"
    yield row("a step", promise.step, "ms", 1e3, None) if promise.step else f"  a step                   {left_out}"
    if promise.step:
        yield row(f"{facts['item']} a second", rates(promise), "", 1, None)
    yield row("the whole run", promise.run, "hours", 1 / 3600, None) if promise.run else f"  the whole run            {left_out}"
    yield row("energy of a step", energy(promise, promise.step), "J", 1, None)
    yield row("energy of the run", energy(promise, promise.run), "kWh", 1 / 3.6e6, None)
    yield "parts of a step:"
    for name, times in promise.parts.items():
        yield row(name, times, "ms", 1e3, promise.step)
    reading = promise.feed.step()
    if reading:
        yield row("images read a second", tuple(facts["items_per_step"] / time if time else math.inf for time in reversed(reading)), "", 1, None)
    advice = promise.feed.advice(promise.computation, promise.threads)
    if advice:
        yield f"  {advice}"
    yield "parts of the run, besides steps:"
    for name, times in (("evaluations", promise.evaluations), ("checkpoints", promise.checkpoints)):
        yield row(name, times, "s", 1, promise.run)
    yield "  start of the ranks       not measured"
    yield from (f"extrapolated: {sentence}" for sentence in promise.extrapolated)
    for ops in facts["ops_without_times"]:
        yield f"{ops}: their products are counted as those in precision.compute, and the difference as between ops"
    for part, reasons in promise.missing.items():
        yield from (f"missing in {part}: {reason}" for reason in reasons)


def say(promise):
    for line in lines(promise):
        print(printable(line).encode(errors="replace").decode())
    if any("measured" in reason for reasons in promise.missing.values() for reason in reasons):
        print("tools/strata measure CONFIG, with the same ranks and keys, measures what was not measured yet")
