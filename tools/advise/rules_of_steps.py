# SPDX-License-Identifier: MIT
"""Rules on how a step is divided: micro-batches, recomputation, memory and threads."""
import os

from advice import Advice
from evidence import LEVELS
from rules_of_ops import computation, time_of_ops, whole_step

LEAST = 0.02  # share of a step that a gain must have
KEPT_OPS = ("linear", "attention", "linear_cross_entropy")  # `selective` keeps what they return, and recomputes the others


def memory(_, measure):
    """The memory model predicts more than there is. This needs no run, which could not even start."""
    described, limit = measure.describe(), measure.limit()
    if not described or not described.bytes or not limit or described.bytes <= limit:
        return None
    if described.configuration.get("memory_budget", "none") != "none":
        return None  # the run itself chooses what to recompute, or refuses with what would need less
    over = f"A rank is predicted to need {described.bytes / 2**30:.2f} GiB, and there are {limit / 2**30:.2f} GiB"
    size = int(described.configuration["micro_batch"])
    ways = [("gradient_checkpointing=selective",), ("gradient_checkpointing=full",)]
    if size % 2 == 0:
        ways.insert(1, (f"micro_batch={size // 2}",))
    saved = {extra: measure.saved_bytes(extra) for extra in ways}
    enough = [extra for extra in ways if saved[extra] and described.bytes - saved[extra] <= limit]
    chosen = enough[0] if enough else max(ways, key=lambda extra: saved[extra] or 0)
    if not saved[chosen] or saved[chosen] <= 0:
        return None
    return Advice("memory", chosen, None, saved[chosen], f"{over}.", fits=True)


def recomputation(evidence, measure):
    """Layers recompute although the memory for what they would keep is free."""
    now = evidence.value("gradient_checkpointing", "none")
    if now == "none":
        return None
    # A recomputed forward is a forward in the phase of the backward.
    recomputed = [row for row in evidence.ops if row.phase == "backward" and not row.backward and row.level in LEVELS]
    ways = {"none": recomputed}
    if now != "selective":
        ways["selective"] = [row for row in recomputed if row.op in KEPT_OPS]
    for other, spared in ways.items():
        extra = (f"gradient_checkpointing={other}",)
        if not measure.fits(extra):
            continue
        gain = sum(row.milliseconds for row in spared)
        if gain < LEAST * evidence.compute:
            return None
        saved, limit = measure.saved_bytes(extra), measure.limit()
        room = f", and {limit / 2**30:.2f} GiB may be used" if limit else ""
        needed = f"which would need {-saved / 2**20:.1f} MiB more{room}" if saved is not None else "for memory that is free"
        return Advice("recomputation", extra, gain, saved, f"The backward recomputes outputs for {gain:.2f} ms of a step, {needed}.")
    return None


def micro_batch(evidence, measure):
    """A step has many small micro-batches, and a larger one fits."""
    count, size = evidence.micro_batches, evidence.integer("micro_batch", 1)
    if count < 2 or not evidence.ops:
        return None
    divisors = (divisor for divisor in range(1, count) if count % divisor == 0)
    fewer = next((divisor for divisor in divisors if measure.fits((f"micro_batch={size * (count // divisor)}",))), None)
    if fewer is None:
        return None
    extra = (f"micro_batch={size * (count // fewer)}",)
    now = whole_step(evidence, measure.plan(), count)
    then = whole_step(evidence, measure.plan(extra), fewer, chosen=True)
    if not now or not then:
        return Advice("micro-batch", extra, None, measure.saved_bytes(extra), f"A step has {count} micro-batches, and no plan compares {fewer}.")
    # Gathers and reductions are done once for each micro-batch, and so is what stands between ops, such as sums of gradients. A GPU waits
    # as often as it gets kernels.
    ops = time_of_ops(evidence, now)
    each = computation(evidence) - ops + evidence.communication(lambda row: row.phase != "optimizer") + evidence.idle
    gain = ops * (1 - then / now) + each * (1 - fewer / count)
    if gain < LEAST * evidence.compute:
        return None
    return Advice("micro-batch", extra, gain, measure.saved_bytes(extra),
                  f"A step has {count} micro-batches of {size}, whose ops take {now / 1000:.2f} ms in the plan, and {then / 1000:.2f} ms with "
                  f"{fewer} of {size * (count // fewer)}.")  # fmt: skip


def threads(evidence, measure):
    """Ranks have fewer or more threads than there are cores for them."""
    cores = max(1, len(os.sched_getaffinity(0)) // evidence.ranks)
    now = evidence.integer("run.threads")
    if not now or now == cores or evidence.on_gpu or not evidence.ops:
        return None
    before, after = (whole_step(evidence, measure.plan(threads=count)) for count in (now, cores))
    if not before or not after:
        return Advice("threads", ("run.threads=0",), None, 0, f"A rank has {now} threads, and there are {cores} cores for it.")
    gain = computation(evidence) * (1 - after / before)
    if gain < LEAST * evidence.compute:
        return None
    return Advice("threads", ("run.threads=0",), gain, 0,
                  f"A rank has {now} threads on {cores} cores, and ops take {after / before:.0%} of their time with {cores}.")  # fmt: skip


def readers(evidence, measure):
    """Steps wait for threads that read and decode images."""
    wait, now = evidence.phase_time("data"), evidence.integer("data.threads", -1)
    if wait is None or now < 0 or wait < LEAST * evidence.compute:
        return None
    cores = max(1, len(os.sched_getaffinity(0)) // evidence.ranks)
    have = now or evidence.integer("run.threads") or cores
    if have >= cores:
        return None
    # While steps wait, the readers work all the time: they take as long as the step, and with more threads a share of it.
    gain = min(wait, evidence.compute * (1 - have / cores))
    return Advice("readers", (f"data.threads={cores}",), gain, None,
                  f"A step waits {wait:.2f} ms for data, which {have} threads read, and there are {cores} cores.")  # fmt: skip
