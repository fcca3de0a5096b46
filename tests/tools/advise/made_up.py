# SPDX-License-Identifier: MIT
"""Folders of runs with made-up times, and measurements with made-up answers."""
import json
import os

PHASES = ("data", "forward", "backward", "communication", "optimizer", "evaluation", "checkpoint", "report")
CLEAN = {"steps": "1000", "batch": "16", "micro_batch": "16", "run.ranks": "1", "run.threads": "0", "run.device": "cpu", "model.type": "transformer",
         "model.layers": "4", "model.width": "4096", "model.sequence": "512", "model.attention": "causal", "model.vocabulary": "256",
         "data.type": "text", "kernels.default": "best", "precision.compute": "float32", "gradient_checkpointing": "none", "memory_budget": "none",
         "cuda_graph": "auto", "checkpoint.every": "500", "evaluation.every": "500", "profile.steps": "none", "sharding.strategy": "full",
         "sharding.reshard_after_forward": "true", "sharding.prefetch": "1", "sharding.accumulate": "reduced"}  # fmt: skip
STEP, PROFILED_STEP = 100.0, 200.0  # milliseconds; the profiler makes a step twice as long
PROFILED = range(20, 25)


def row(op, milliseconds, level="aten", phase="forward", backward=False, layer=0, calls=1):
    """Returns a row of the profile whose time without the profiler is `milliseconds`."""
    return {"op": op, "level": level, "phase": phase, "backward": backward, "layer": layer, "calls": calls, "milliseconds": 2 * milliseconds}


def write_run(folder, configuration, rows=(), phases=None, every=1, saves=(), evaluations=(), device="cpu", profile=None):
    """Writes metrics, configuration and profile. `phases` are {phase: milliseconds} beside forward and backward, in steps that
    `every` divides; `saves` are the steps after which the run is saved, for 40 ms, and `evaluations` those with one after them, for 300 ms;
    `profile` are times of each profiled step. A GPU has no phases."""
    os.makedirs(os.path.join(folder, "profile"))
    with open(os.path.join(folder, "resolved.yaml"), "w", encoding="utf-8") as file:
        file.writelines(f"{key}: {value}  # default\n" for key, value in configuration.items())
    with open(os.path.join(folder, "metrics.jsonl"), "w", encoding="utf-8") as file:
        for step in range(1, 25):
            # The median of the steps that count is STEP.
            whole = 10 * STEP if step <= 5 else PROFILED_STEP if step in PROFILED else STEP + (step - 12.5) / 4
            beside = dict(phases or {}) if step % every == 0 else {}
            if step - 1 in saves:
                beside["checkpoint"] = 40.0
            times = {**dict.fromkeys(PHASES, 0.0), "forward": whole / 4, "backward": 3 * whole / 4, **beside}
            whole += beside.get("evaluation", 0) + beside.get("checkpoint", 0) + (300 if step - 1 in evaluations else 0)
            record = {"step": step, "loss": 1.0, "milliseconds": whole}
            file.write(json.dumps({**record, "phases": times} if device == "cpu" else record) + "\n")
            if step in evaluations:
                file.write(json.dumps({"step": step, "validation_loss": 1.0}) + "\n")
            if step in saves:
                file.write(json.dumps({"step": step, "save": {"milliseconds": 40.0, "waited_milliseconds": 0}}) + "\n")
    with open(os.path.join(folder, "profile", "rank-0.jsonl"), "w", encoding="utf-8") as file:
        for step in PROFILED:
            times = {"forward": 50, "communication": 0, "exposed": 0, "idle": 0, "cuda_graph": False, **(profile or {})}
            file.write(json.dumps({"step": step, "device": device, "milliseconds": PROFILED_STEP, **times}) + "\n")
            file.writelines(json.dumps({"step": step, **line}) + "\n" for line in rows)


class FakePlan:
    """`times` has microseconds by (op, level), `levels` the best level by op."""
    path = "plan.yaml"

    def __init__(self, times, levels=None):
        self.times, self.levels = times, levels or {}
        self.rows = [{"op": op, "level": level, "shape": "4x4->4", "forward": time} for (op, level), time in times.items()]

    def total(self, op, level, shape=None):
        return self.times.get((op, level))

    def level_of(self, op):
        return self.levels.get(op)


class FakeMeasure:
    """`plans` are by (extra overrides, threads); `needs` are predicted bytes by extra overrides, and 100 otherwise."""

    def __init__(self, configuration, plans=None, needs=None, limit=1000):
        self.configuration, self.plans, self.needs, self.limit_of_memory = configuration, plans or {}, needs or {}, limit

    def describe(self, extra=()):
        described = type("Described", (), {})()
        described.configuration, described.bytes = self.configuration, self.needs.get(tuple(extra), 100)
        return described

    def saved_bytes(self, extra):
        return self.describe().bytes - self.describe(extra).bytes

    def fits(self, extra):
        return self.describe(extra).bytes <= 0.9 * self.limit_of_memory

    def limit(self):
        return self.limit_of_memory

    def plan(self, extra=(), threads=0):
        return self.plans.get((tuple(extra), threads))
