# SPDX-License-Identifier: MIT
"""For each rule a run with its defect, the advice that it must give, and runs without the defect on which it must be silent."""
import os
import typing

from made_up import FakePlan, row

CORES = len(os.sched_getaffinity(0))
GPU = "NVIDIA H200"
WAITS = {"communication": 100, "exposed": 50}  # half of the communication is hidden
FORWARD = row("linear", 60)
LINEAR = FakePlan({("linear", "aten"): 600})


class Case(typing.NamedTuple):
    rule: str  # module.function
    expected: typing.Optional[tuple]  # first override, milliseconds, bytes; None: no advice
    configuration: dict = {}  # what differs from the clean one
    run: dict = {}  # arguments of write_run
    measure: dict = {}  # arguments of FakeMeasure


def ops(*rows, **more):
    return {"rows": rows, **more}


def collectives(strategy="full"):
    return ops(row("all_gather", 8, "wait", "forward", calls=4), row("all_gather", 4, "collective", "forward", calls=4),
               row("all_gather", 20, "wait", "backward", calls=4), row("all_gather", 0, "collective", "backward", calls=4),
               row("reduce_scatter", 16, "collective", "backward", calls=4), profile=WAITS)  # fmt: skip


RECOMPUTED = ops(row("linear", 15, phase="backward"), row("activation", 5, phase="backward"), row("linear", 30, phase="backward", backward=True))
LEVELS = FakePlan({("linear", "torchscript"): 400, ("linear", "aten"): 100, ("activation", "torchscript"): 100, ("activation", "aten"): 95},
                  {"linear": "aten", "activation": "aten"})  # fmt: skip
PARTLY = FakePlan({**LEVELS.times, ("cross_entropy", "torchscript"): 5}, {**LEVELS.levels, "cross_entropy": "torchscript"})
SLOW = ops(row("linear", 40, "torchscript"), row("activation", 10, "torchscript"))
# Of 140 ms between the ops, 50 are their backward: the plan has 100 for the ops, which take 50 in the profile.
UNDER_NO_OP = ops(*SLOW["rows"], row("backward", 140, None, "backward"), row("adamw", 5, "torchscript", "optimizer", layer=None))
SLOWER = FakePlan({("linear", "torchscript"): 80000, ("linear", "aten"): 20000, ("activation", "torchscript"): 20000, ("activation", "aten"): 19000,
                   ("adamw", "torchscript"): 100, ("adamw", "aten"): 20}, {"linear": "aten", "activation": "aten", "adamw": "aten"})  # fmt: skip
FUSED = FakePlan({("linear_cross_entropy", "aten"): 100, ("linear", "aten"): 200, ("cross_entropy", "aten"): 100})
APART = ops(row("linear", 20, layer=None), row("cross_entropy", 10, layer=None), row("linear", 30))
SPARSE, DENSE = "model.attention=causal & window(2048)", {"model.sequence": "8192"}

CASES = (
    Case("rules_of_steps.memory", ("micro_batch=8", None, 300), {}, {}, {"limit": 60, "needs": {(): 350, ("micro_batch=8",): 50}}),
    Case("rules_of_steps.memory", ("gradient_checkpointing=selective", None, 45), {}, {},
         {"limit": 60, "needs": {("micro_batch=8",): 50, ("gradient_checkpointing=selective",): 55}}),
    Case("rules_of_steps.memory", None, {"memory_budget": "0.01"}, {}, {"limit": 60, "needs": {("micro_batch=8",): 50}}),
    Case("rules_of_steps.memory", None, {}, {}, {"limit": 100, "needs": {("micro_batch=8",): 5}}),
    Case("rules_of_steps.recomputation", ("gradient_checkpointing=none", 20, -50), {"gradient_checkpointing": "full"}, RECOMPUTED,
         {"needs": {("gradient_checkpointing=none",): 150}}),
    Case("rules_of_steps.recomputation", ("gradient_checkpointing=selective", 15, 0), {"gradient_checkpointing": "full"}, RECOMPUTED,
         {"needs": {("gradient_checkpointing=none",): 950}}),
    Case("rules_of_steps.recomputation", None, {"gradient_checkpointing": "selective"}, RECOMPUTED, {"limit": 100}),
    Case("rules_of_steps.recomputation", None, {}, RECOMPUTED),
    Case("rules_of_steps.recomputation", None, {"gradient_checkpointing": "full"}, ops(row("linear", 30, phase="backward", backward=True))),
    Case("rules_of_steps.micro_batch", ("micro_batch=16", 45, -30), {"micro_batch": "2"}, ops(FORWARD),
         {"plans": {((), 0): LINEAR, (("micro_batch=16",), 0): FakePlan({("linear", "aten"): 1200})}, "needs": {("micro_batch=16",): 130}}),
    Case("rules_of_steps.micro_batch", ("micro_batch=4", 30, 0), {"micro_batch": "2"}, ops(FORWARD),
         {"plans": {((), 0): LINEAR, (("micro_batch=4",), 0): LINEAR}, "needs": {("micro_batch=16",): 950, ("micro_batch=8",): 950}}),
    Case("rules_of_steps.micro_batch", ("micro_batch=16", 59, 0), {"micro_batch": "2"}, ops(FORWARD, row("add", 16, None, "backward")),
         {"plans": {((), 0): LINEAR, (("micro_batch=16",), 0): FakePlan({("linear", "aten"): 1200})}}),
    Case("rules_of_steps.micro_batch", ("micro_batch=16", None, 0), {"micro_batch": "2"}, ops(FORWARD)),
    Case("rules_of_steps.micro_batch", None, {"micro_batch": "2"}, ops(FORWARD),
         {"plans": {((), 0): LINEAR, (("micro_batch=16",), 0): FakePlan({("linear", "aten"): 4790})}}),
    Case("rules_of_steps.micro_batch", None, {}, ops(FORWARD)),
    Case("rules_of_steps.threads", ("run.threads=0", 30, 0), {"run.threads": "77"}, ops(FORWARD),
         {"plans": {((), 77): LINEAR, ((), CORES): FakePlan({("linear", "aten"): 300})}}),
    Case("rules_of_steps.threads", None, {"run.threads": str(CORES)}, ops(FORWARD), {"plans": {((), CORES): LINEAR}}),
    Case("rules_of_steps.threads", None, {"run.threads": "77"}, ops(FORWARD), {"plans": {((), 77): LINEAR, ((), CORES): LINEAR}}),
    Case("rules_of_runs.checkpoints", ("checkpoint.every=40", 39, 0), {"checkpoint.every": "1"}, {"saves": range(1, 25)}),
    Case("rules_of_runs.checkpoints", ("checkpoint.every=40", 9, 0), {"checkpoint.every": "4"}, {"saves": range(4, 25, 4)}),
    Case("rules_of_runs.checkpoints", None, {"checkpoint.every": "20"}, {"saves": [20]}),
    Case("rules_of_runs.checkpoints", None, {"checkpoint.every": "1"}),
    Case("rules_of_runs.checkpoints", None, {"checkpoint.every": "8", "steps": "8"}, {"saves": [8, 16]}),
    Case("rules_of_runs.evaluations", ("evaluation.every=300", 149, 0), {"evaluation.every": "2"},
         {"phases": {"evaluation": 300.0}, "every": 2}),
    Case("rules_of_runs.evaluations", None, {"evaluation.every": "150"}, {"phases": {"evaluation": 300.0}}),
    Case("rules_of_runs.evaluations", None, {"evaluation.every": "2", "steps": "2"}, {"phases": {"evaluation": 300.0}}),
    # On GPUs the step after an evaluation or a save has its time. If every step has, only the profile tells what a step takes.
    Case("rules_of_runs.evaluations", ("evaluation.every=300", 59, 0), {"evaluation.every": "5"}, {"device": GPU, "evaluations": (9, 14)}),
    Case("rules_of_runs.evaluations", ("evaluation.every=300", 59, 0), {"evaluation.every": "5"},
         {"device": GPU, "evaluations": (7, 9, 14, 16), "saves": (7, 10, 13, 16)}),
    Case("rules_of_runs.evaluations", ("evaluation.every=300", 299, 0), {"evaluation.every": "1"},
         {"device": GPU, "evaluations": range(1, 25), "profile": {"milliseconds": 100}}),
    Case("rules_of_runs.evaluations", None, {"evaluation.every": "5"}, {"device": GPU, "saves": (9, 14)}),
    Case("rules_of_runs.checkpoints", ("checkpoint.every=40", 7, 0), {"checkpoint.every": "5"}, {"device": GPU, "saves": (9, 14)}),
    Case("rules_of_runs.checkpoints", ("checkpoint.every=40", 7, 0), {"checkpoint.every": "5"},
         {"device": GPU, "saves": (8, 15), "evaluations": (9, 14)}),
    Case("rules_of_runs.checkpoints", ("checkpoint.every=40", 39, 0), {"checkpoint.every": "1"},
         {"device": GPU, "saves": range(1, 25), "profile": {"milliseconds": 100}}),
    Case("rules_of_runs.checkpoints", None, {"checkpoint.every": "25"}, {"device": GPU, "saves": (15,)}),
    Case("rules_of_runs.profile", ("profile.steps=none", 50, None), {"profile.steps": "501-2000"}),
    Case("rules_of_runs.profile", ("profile.steps=none", 5, None), {"profile.steps": "1-50"}),
    Case("rules_of_runs.profile", None, {"profile.steps": "20-24"}),
    Case("rules_of_runs.profile", None, {}),
    Case("rules_of_ranks.replicate", ("sharding.strategy=none", 8, -200), {"run.ranks": "2"}, collectives(),
         {"needs": {("sharding.strategy=none",): 300}}),
    Case("rules_of_ranks.replicate", ("sharding.strategy=none", 5, 0), {"run.ranks": "2"},
         ops(*collectives()["rows"], row("adamw", 3, phase="optimizer", layer=None), profile=WAITS)),
    Case("rules_of_ranks.replicate", None, {"run.ranks": "2"}, collectives(), {"needs": {("sharding.strategy=none",): 901}}),
    Case("rules_of_ranks.replicate", None, {"run.ranks": "2", "sharding.strategy": "none"}, collectives()),
    Case("rules_of_ranks.reshard", ("sharding.reshard_after_forward=false", 10, 0), {"run.ranks": "2"}, collectives()),
    Case("rules_of_ranks.reshard", None, {"run.ranks": "2", "sharding.reshard_after_forward": "false"}, collectives()),
    Case("rules_of_ranks.prefetch", ("sharding.prefetch=1", None, 0), {"run.ranks": "2", "sharding.prefetch": "0"}, collectives()),
    Case("rules_of_ranks.prefetch", ("sharding.prefetch=1", 12, 0), {"run.ranks": "2", "sharding.prefetch": "0"}, {**collectives(), "device": GPU}),
    Case("rules_of_ranks.prefetch", None, {"run.ranks": "2"}, collectives()),
    Case("rules_of_ranks.accumulate", ("sharding.accumulate=full", 6, 0), {"run.ranks": "2", "micro_batch": "2"}, collectives()),
    Case("rules_of_ranks.accumulate", None, {"run.ranks": "2", "micro_batch": "8"}, collectives()),
    Case("rules_of_ops.levels", ("kernels={default: best}", 30, 0), {"kernels.default": "torchscript"}, SLOW, {"plans": {((), 0): LEVELS}}),
    Case("rules_of_ops.levels", ("kernels={default: best}", 64, 0), {"kernels.default": "torchscript"}, UNDER_NO_OP, {"plans": {((), 0): SLOWER}}),
    Case("rules_of_ops.levels", ("kernels={default: best}", 30, 0), {"kernels.default": "torchscript"}, SLOW, {"plans": {((), 0): SLOWER}}),
    Case("rules_of_ops.levels", None, {}, SLOW, {"plans": {((), 0): LEVELS}}),
    Case("rules_of_ops.levels", None, {"kernels.default": "aten"}, ops(FORWARD), {"plans": {((), 0): LEVELS}}),
    Case("rules_of_ops.fused_head", ("kernels.linear_cross_entropy=aten", 20, 20), {}, APART,
         {"plans": {((), 0): FUSED}, "needs": {("kernels.linear_cross_entropy=aten",): 80}}),
    Case("rules_of_ops.fused_head", None, {}, ops(row("linear_cross_entropy", 20), *APART["rows"]), {"plans": {((), 0): FUSED}}),
    Case("rules_of_ops.step_graph", ("cuda_graph=auto", 17, 0), {"cuda_graph": "off"}, {"device": GPU, "profile": {"idle": 117}}),
    Case("rules_of_ops.step_graph", None, {"cuda_graph": "off"}, {"profile": {"milliseconds": 60, "idle": 17}}),
    Case("rules_of_ops.step_graph", None, {"cuda_graph": "off"}, {"device": GPU, "profile": {"idle": 101}}),
    Case("rules_of_ops.step_graph", None, {"cuda_graph": "off"}, {"device": GPU, "profile": {"idle": 60}}),  # the profiler made it wait
    Case("rules_of_ops.step_graph", None, {}, {"device": GPU, "profile": {"idle": 117}}),
    Case("rules_of_ops.levels", ("kernels={default: best}", 30, 0), {"kernels.default": "torchscript"}, ops(*SLOW["rows"], profile={"idle": 120}),
         {"plans": {((), 0): LEVELS}}),
    # Of 200 ms of a profiled step a GPU works in 80, of 100 without the profiler too; and 20 are a wait for the host.
    Case("rules_of_ops.levels", ("kernels={default: best}", 80, 0), {"kernels.default": "torchscript"},
         ops(*SLOW["rows"], device=GPU, profile={"idle": 120}), {"plans": {((), 0): LEVELS}}),
    Case("rules_of_ops.levels", ("kernels={default: best}", 60, 0), {"kernels.default": "torchscript", "cuda_graph": "off"},
         ops(*SLOW["rows"], device=GPU, profile={"idle": 120}), {"plans": {((), 0): LEVELS}}),
    Case("rules_of_ops.levels", ("kernels={default: best}", 60, 0), {"kernels.default": "torchscript"},
         ops(*SLOW["rows"], device=GPU, profile={"idle": 120}), {"plans": {((), 0): PARTLY}}),
    Case("rules_of_steps.micro_batch", ("micro_batch=16", 77.5, 0), {"micro_batch": "2"}, ops(row("linear", 40), device=GPU, profile={"idle": 120}),
         {"plans": {((), 0): FakePlan({("linear", "aten"): 5}), (("micro_batch=16",), 0): FakePlan({("linear", "aten"): 10})}}),
    # `best` has another plan for larger micro-batches, and its levels count.
    Case("rules_of_steps.micro_batch", ("micro_batch=16", 45, 0), {"micro_batch": "2"}, ops(FORWARD),
         {"plans": {((), 0): LINEAR, (("micro_batch=16",), 0): FakePlan({("linear", "cuda"): 1200, ("linear", "aten"): 4800}, {"linear": "cuda"})}}),
    Case("rules_of_ops.compute_type", ("precision.compute=bfloat16", 40, 0), {}, ops(FORWARD, device=GPU),
         {"plans": {((), 0): LINEAR, (("precision.compute=bfloat16",), 0): FakePlan({("linear", "aten"): 200})}}),
    Case("rules_of_ops.compute_type", ("precision.compute=bfloat16", 40, 0), {}, ops(FORWARD, device=GPU),
         {"plans": {((), 0): LINEAR, (("precision.compute=bfloat16",), 0): FakePlan({("linear", "cuda"): 200, ("linear", "aten"): 600}, {"linear": "cuda"})}}),
    Case("rules_of_ops.compute_type", ("precision.compute=float32", 30, 0), {"precision.compute": "bfloat16"}, ops(FORWARD),
         {"plans": {((), 0): LINEAR, (("precision.compute=float32",), 0): FakePlan({("linear", "aten"): 300})}}),
    Case("rules_of_ops.compute_type", ("precision.compute=bfloat16", None, 0), {}, ops(FORWARD, device=GPU)),
    Case("rules_of_ops.compute_type", None, {}, ops(FORWARD)),
    Case("rules_of_ops.compute_type", None, {"precision.compute": "bfloat16"}, ops(FORWARD),
         {"plans": {((), 0): LINEAR, (("precision.compute=float32",), 0): FakePlan({("linear", "aten"): 590})}}),
    Case("rules_of_ops.fp8", ("precision.linear={format: fp8}", None, 0), {"precision.compute": "bfloat16"}, ops(FORWARD, device=GPU)),
    Case("rules_of_ops.fp8", None, {"precision.compute": "bfloat16", "model.width": "768"}, ops(FORWARD, device=GPU)),
    Case("rules_of_ops.vocabulary", ("model.vocabulary=50304", 30, 0), {"model.vocabulary": "50257"}, ops(FORWARD, device=GPU),
         {"plans": {((), 0): LINEAR, (("model.vocabulary=50304",), 0): FakePlan({("linear", "aten"): 300})}}),
    Case("rules_of_ops.vocabulary", None, {}, ops(FORWARD, device=GPU)),
    Case("rules_of_ops.attention_pattern", (SPARSE, 30, 0), DENSE, ops(row("attention", 40)),
         {"plans": {((), 0): FakePlan({("attention", "aten"): 800}), ((SPARSE,), 0): FakePlan({("attention", "aten"): 200})}}),
    Case("rules_of_ops.attention_pattern", None, DENSE, ops(row("attention", 20))),
    Case("rules_of_ops.attention_pattern", None, DENSE, ops(row("attention", 40)),
         {"plans": {((), 0): FakePlan({("attention", "aten"): 200}), ((SPARSE,), 0): FakePlan({("attention", "aten"): 300})}}),
)  # fmt: skip
if CORES > 1:
    CASES += (
        Case("rules_of_steps.readers", ("data.threads=%d" % CORES, 100 * (1 - 1 / CORES), None), {"data.threads": "1"}, {"phases": {"data": 90.0}}),
        Case("rules_of_steps.readers", None, {"data.threads": "1"}, {"phases": {"data": 1.0}}),
        Case("rules_of_steps.readers", None, {}, {"phases": {"data": 90.0}}),
    )
