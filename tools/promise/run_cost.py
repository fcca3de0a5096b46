# SPDX-License-Identifier: MIT
"""Adds measured times up to those of a step and of a run. Every time is three numbers: the bounds are the sums of the 10 % and of
the 90 % quantiles of what was measured, and the middle is the sum of the means.

    a step = micro-batches x (forwards + backwards + recomputation + what is between ops) + optimizer + exposed communication + data
    a run  = steps + evaluations + checkpoints

What is between ops (autograd, casts, views, sums of gradients) was measured as the difference between real steps of at most three
layers and the ops in them, per call of an op."""
import hashlib
import os

from links import Links
from machine_file import OP

NOTHING = (0.0, 0.0, 0.0)
PARTS = ("forward ops", "backward ops", "recomputation", "between ops", "optimizer", "exposed communication", "data")


def plus(*times):
    return tuple(sum(values) for values in zip(*times)) if times else NOTHING


def scaled(time, factor):
    return tuple(factor * value for value in time)


def name_of(op):
    return f"{op['op']} {op['shape']} ({op['level']}, {op['dtype']})"


def calls_in(facts, part):
    return sum(op["calls"] for op in facts["ops"] if op["part"] == part)


def ops_hash(facts):
    """Names the ops of a forward, whatever the number of layers, so that steps of fewer layers stand for the run."""
    names = sorted({str([op[name] for name in OP]) for op in facts["ops"] if op["part"] == "forward"})
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def exchange_of(facts):
    """Names the collectives of a step: sharded and replicated parameters, for example, hide their communication differently."""
    return ", ".join(sorted({f"{call['part']} {call['operation']}" for call in facts["collectives"] if call["part"] != "evaluation"}))


def own_threads(ranks):
    """The threads of each of so many ranks of this machine, if run.threads does not name them (trainer/start_rank.cc)."""
    return max(len(os.sched_getaffinity(0)) // ranks, 1)


class Prices:
    """Times of ops by the ranks and threads that measured them. What has none is put into `missing`."""

    def __init__(self, file, ranks, threads):
        self.ops = {tuple(row[name] for name in OP): row for row in file.of_kind("op", ranks, threads)}
        self.missing = []

    def of(self, op, direction):
        row = self.ops.get(tuple(op[name] for name in OP))
        if row is None or "not_timed" in row:
            why = "not measured" if row is None else f"not timed, because {' '.join(row['not_timed'].split())[:200]}"
            if f"{name_of(op)}: {why}" not in self.missing:
                self.missing.append(f"{name_of(op)}: {why}")
            return NOTHING
        return tuple(row[direction]) if row[direction] else NOTHING

    def sum(self, facts, part, direction):
        return plus(NOTHING, *(scaled(self.of(op, direction), op["calls"]) for op in facts["ops"] if op["part"] == part))


def op_parts(facts, prices):
    """The parts of a step that are ops, of all micro-batches, and the names of what was not measured by part."""
    parts, missing = {}, {}
    for name, sums in {
        "forward ops": (("forward", "forward"),),
        "backward ops": (("forward", "backward"), ("backward", "forward")),
        "recomputation": (("recomputation", "forward"),),
        "optimizer": (("optimizer", "forward"),),
    }.items():
        prices.missing = []
        times = 1 if name == "optimizer" else facts["micro_batches"]
        parts[name] = scaled(plus(*(prices.sum(facts, part, direction) for part, direction in sums)), times)
        if name != "optimizer":
            prices.missing.extend(f"{ops}: no measurement times them" for ops in facts["ops_without_times"])
        if prices.missing:
            parts[name], missing[name] = None, prices.missing
    return parts, missing


def total(parts):
    """The sum, or None if a part has no number."""
    parts = list(parts)
    return None if any(part is None for part in parts) else plus(NOTHING, *parts)


class Promise:
    """What is promised of a run. `facts` are those of call_times, `file` is a MachineFile. A part without measurement is None, and
    `missing` says why by name; `extrapolated` says what was computed for a number of ranks that was not measured."""

    def __init__(self, facts, file, network=None):
        self.facts, self.file, self.missing, self.extrapolated = facts, file, {}, []
        self.ranks, self.threads = self.condition()
        self.prices = Prices(file, self.ranks, self.threads)
        self.outside = self.outside_row()
        self.storage = next(iter(file.of_kind("storage", self.ranks, self.threads)), None)
        self.links = Links(file.of_kind("collective", self.ranks, self.threads), self.ranks, network)
        if self.ranks and (facts["ranks"] != self.ranks or (network and facts["ranks"] > 1)):
            model = "the latency and bandwidth measured here"
            if network:
                model = f"{network[0] * 1e6:g} us and {network[1] / 1e9:g} GB/s of a link at best"
            self.extrapolated.append(f"{facts['ranks']} ranks from {self.ranks} measured: ops as beside {self.ranks} ranks of one machine"
                                     + (f"; collectives in rings with {model}" if facts["collectives"] else ""))
        self.parts = self.step_parts()
        self.step = total(self.parts.values())
        if self.step and self.step[1] <= 0:  # what is between ops may be below 0
            self.lacks("a step", "its time is not above 0, because what was measured differs too much from time to time")
            self.step = None
        self.step = self.step and tuple(max(time, 0) for time in self.step)
        self.evaluations, self.checkpoints = self.evaluation_time(), self.checkpoint_time()
        whole = (self.step and scaled(self.step, facts["steps"]), self.evaluations, self.checkpoints)
        self.run = total(whole)

    def condition(self):
        """The measured ranks and threads that are nearest to the run's: no more ranks, and the threads that each of them would have."""
        fitting = [(ranks, threads) for ranks, threads in self.file.conditions()
                   if ranks <= self.facts["ranks"] and threads == (self.facts["threads"] or own_threads(ranks))]  # fmt: skip
        return fitting[-1] if fitting else (0, 0)

    def outside_row(self):
        """The measured steps with the ops of the run and no other collectives than its own. With more ranks it may have more of them."""
        own = set(exchange_of(self.facts).split(", ")) | {""}
        rows = [row for row in self.file.of_kind("outside", self.ranks, self.threads)
                if row["ops"] == ops_hash(self.facts) and own >= set(row["exchange"].split(", "))]  # fmt: skip
        return max(rows, key=lambda row: len(row["exchange"]), default=None)

    def lacks(self, part, *reasons):
        self.missing.setdefault(part, []).extend(reasons)

    def step_parts(self):
        parts, missing = op_parts(self.facts, self.prices)
        for part, reasons in missing.items():
            self.lacks(part, *reasons)
        calls, per_step = calls_in(self.facts, "forward"), self.facts["micro_batches"]
        parts["between ops"] = parts["data"] = None
        if self.outside:
            between = plus(self.outside["forward"], self.outside["backward"])
            parts["between ops"] = plus(scaled(between, calls * per_step), scaled(self.outside["optimizer"], calls_in(self.facts, "optimizer")))
            parts["data"] = tuple(self.outside["data"])
        else:
            for part in ("between ops", "data"):
                self.lacks(part, "no step of a model with these ops and collectives was measured")
        parts["exposed communication"] = self.exposed(parts)
        return {name: parts[name] for name in PARTS}

    def collectives(self, wanted):
        """The time of all collectives of these parts, or None."""
        times = []
        for call in self.facts["collectives"]:
            if call["part"] not in wanted:
                continue
            if not self.links.has(call["operation"]):
                self.lacks("exposed communication", f"{call['operation']} was not measured")
                return None
            times.append(scaled(self.links.seconds(call["operation"], call["bytes"], call["ranks"]), call["calls"]))
        return plus(NOTHING, *times)

    def exposed(self, parts):
        """Communication is exposed by the share that it was in measured steps, and by all that is longer than what it overlaps. It is
        least if the communication is shortest and the computation longest."""
        if self.facts["ranks"] == 1:
            return NOTHING
        if not self.outside or self.outside["exposed"] is None:
            self.lacks("exposed communication", "no step of several ranks was measured with these ops")
            return None
        whole = self.collectives(("forward", "backward", "optimizer"))
        computation = total(parts[name] for name in ("forward ops", "backward ops", "recomputation", "between ops"))
        if whole is None or computation is None:
            if whole is not None:
                self.lacks("exposed communication", "what it overlaps was not measured")
            return None
        return tuple(max(share * time, time - hidden, 0) for share, time, hidden in zip(self.outside["exposed"], whole, reversed(computation)))

    def evaluation_time(self):
        facts, steps = self.facts, self.facts["steps"]
        every = facts["evaluation_every"]
        between = (steps - 1) // every if every else 0
        if facts["final_samples"] is None or (between and facts["evaluation_samples"] is None):
            self.lacks("evaluations", "their data cannot be read here, so their size is not known")
            return None
        if not calls_in(facts, "evaluation"):
            self.lacks("evaluations", "their ops are known from the data alone")
            return None
        rounds = sum(-(-samples // facts["samples_per_round"]) * times
                     for samples, times in ((facts["evaluation_samples"] or 0, between), (facts["final_samples"], 1)))  # fmt: skip
        self.prices.missing = []
        ops = self.prices.sum(facts, "evaluation", "forward")
        exchanged = self.collectives(("evaluation",)) if facts["ranks"] > 1 else NOTHING
        if self.prices.missing or exchanged is None or not self.outside:
            self.lacks("evaluations", *(self.prices.missing or ["what is between their ops, or their communication, was not measured"]))
            return None
        times = plus(ops, scaled(self.outside["forward"], calls_in(facts, "evaluation")), exchanged)
        return tuple(max(time, 0) * rounds for time in times)  # what is between ops may be below 0

    def checkpoint_time(self):
        """A save holds the step back for a copy, and the end of the run for the write. At worst each write is waited for. The ranks of a
        machine that save share its disk."""
        steps, every = self.facts["steps"], self.facts["checkpoint_every"]
        saves = steps // every + (steps % every > 0) if every else 1
        if not self.storage:
            self.lacks("checkpoints", "neither copies nor writes were measured")
            return None
        copy = scaled(self.storage["copy"], self.facts["saved_bytes"])
        write = scaled(self.storage["write"], self.facts["saved_bytes"] * min(self.facts["saving_ranks"], self.ranks))
        usual = plus(scaled(copy, saves), write)
        return usual[0], usual[1], plus(scaled(copy, saves), scaled(write, saves))[2]
