# SPDX-License-Identifier: MIT
"""Rules on how ranks share parameters. A prediction is the time of collectives in the profile that no computation hides."""
from advice import Advice
from evidence import LEVELS

LEAST = 0.02  # share of a step that a gain must have


def advice(evidence, measure, rule, extra, gain, reason):
    if gain < LEAST * evidence.compute or not measure.fits(extra):
        return None
    return Advice(rule, extra, gain, measure.saved_bytes(extra), reason)


def gathers(evidence, phase=None):
    return evidence.communication(lambda row: row.op == "all_gather" and (phase is None or row.phase == phase))


def calls(evidence, op):
    return sum(row.calls for row in evidence.ops if row.op == op and row.level == "collective")


def replicate(evidence, measure):
    """Parameters are sharded although each rank has room for all of them."""
    if evidence.ranks < 2 or evidence.value("sharding.strategy") not in ("full", "hybrid"):
        return None
    gathered, reduced = calls(evidence, "all_gather"), calls(evidence, "reduce_scatter")
    if not gathered:
        return None
    # To reduce whole gradients takes a gather more for each reduction.
    gain = gathers(evidence) * (1 - min(1, reduced / gathered))
    # Each rank then updates all parameters, and not only its shard.
    shards = evidence.integer("sharding.shard_ranks") if evidence.value("sharding.strategy") == "hybrid" else evidence.ranks
    gain -= (max(1, shards) - 1) * evidence.time_of(lambda row: row.phase == "optimizer" and row.level in LEVELS)
    return advice(evidence, measure, "replicate", ("sharding.strategy=none",), gain,
                  f"Parameters are gathered {gathered:.0f} times a step for {gathers(evidence):.2f} ms that nothing hides, and replicas fit.")  # fmt: skip


def reshard(evidence, measure):
    """Parameters are gathered again for the backward although there is room to keep them."""
    if evidence.ranks < 2 or evidence.value("sharding.reshard_after_forward") != "true" or evidence.value("sharding.strategy") == "none":
        return None
    gain = gathers(evidence, "backward")
    return advice(evidence, measure, "reshard", ("sharding.reshard_after_forward=false",), gain,
                  f"The backward gathers parameters again for {gain:.2f} ms of a step that nothing hides.")  # fmt: skip


def prefetch(evidence, measure):
    """A layer waits for its parameters because they are not gathered ahead."""
    if evidence.ranks < 2 or evidence.value("sharding.prefetch") != "0" or evidence.value("sharding.strategy") == "none":
        return None
    exposed, extra = gathers(evidence), ("sharding.prefetch=1",)
    if exposed < LEAST * evidence.compute or not measure.fits(extra):
        return None
    gain = None  # on CPUs, MPI may move nothing while a layer computes
    if evidence.on_gpu:
        layers = max(1, evidence.integer("model.layers", 1))
        gain = exposed * (layers - 1) / layers
    return Advice("prefetch", extra, gain, measure.saved_bytes(extra), f"Gathers take {exposed:.2f} ms of a step, and none is started ahead.")


def accumulate(evidence, measure):
    """Gradients are reduced after every micro-batch."""
    count = evidence.micro_batches
    if evidence.ranks < 2 or count < 2 or evidence.value("sharding.accumulate") != "reduced":
        return None
    reductions = evidence.communication(lambda row: row.op == "reduce_scatter" and row.layer is not None)
    return advice(evidence, measure, "accumulate", ("sharding.accumulate=full",), reductions * (1 - 1 / count),
                  f"Gradients of layers are reduced {count} times a step, for {reductions:.2f} ms that nothing hides.")  # fmt: skip
