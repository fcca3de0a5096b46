# SPDX-License-Identifier: MIT
"""Adds measured times up to the time of a step and of a run. Every time is three numbers: the bounds are the sums of the 10 % and of
the 90 % quantiles of what was measured, and the middle is the sum of the means.

    a step = micro-batches x (forwards + backwards + recomputation + what is between ops) + optimizer + exposed communication + data
    a run  = steps + evaluations + checkpoints

What is between ops was measured as the difference between short real steps and the ops in them (short_runs.py). A step may also wait for its
images (feed.py)."""
from feed import SHORT, Feed
from links import Links
from prices import NOTHING, Prices, calls_in, op_parts, plus, scaled, total
from short_runs import Remainders, recomputed_share

PARTS = ("forward ops", "backward ops", "recomputation", "between ops", "optimizer", "exposed communication", "data")


class Promise:
    """What is promised of a run. `facts` come from call_times, `file` is a MachineFile. A part without measurement is None, and
    `missing` says why by name; `extrapolated` says what was computed for a number of ranks that was not measured."""

    def __init__(self, facts, file, network=None):
        self.facts, self.file, self.missing, self.extrapolated = facts, file, {}, []
        self.ranks, self.threads = self.nearest_condition()
        self.prices = Prices(file, self.ranks, self.threads)
        self.remainders = Remainders(file.rows_of_kind("outside", self.ranks, self.threads), facts)
        self.storage = next(iter(file.rows_of_kind("storage", self.ranks, self.threads)), None)
        self.feed = Feed(file.rows_of_kind("feed", self.ranks, self.threads), facts)
        self.links = Links(file.rows_of_kind("collective", self.ranks, self.threads), self.ranks, network)
        if self.ranks and (facts["ranks"] != self.ranks or (network and facts["ranks"] > 1)):
            model = "the latency and bandwidth measured here"
            if network:
                model = f"{network[0] * 1e6:g} us and {network[1] / 1e9:g} GB/s of a link at best"
            self.extrapolated.append(f"{facts['ranks']} ranks from {self.ranks} measured: ops as beside {self.ranks} ranks of one machine"
                                     + (f"; collectives in rings with {model}" if facts["collectives"] else ""))
        self.parts = self.step_parts()
        self.computation = self.step = total(self.parts.values())
        if self.step and self.step[1] <= 0:  # what is between ops may be below 0
            self.add_missing("a step", "its time is not above 0, because what was measured differs too much from time to time")
            self.computation = self.step = None
        self.computation = self.step = self.step and tuple(max(time, 0) for time in self.step)
        if self.feed:
            self.wait_for_images()
        self.evaluations, self.checkpoints = self.evaluation_time(), self.checkpoint_time()
        whole = (self.step and scaled(self.step, facts["steps"]), self.evaluations, self.checkpoints)
        self.run = total(whole)
        watts = self.remainders.watts()
        if watts and self.step and self.computation[1] < (1 - SHORT) * self.step[1]:
            self.add_missing("energy", "the power of a GPU that waits for images is not known")
            watts = None
        self.watts = watts and watts * facts["ranks"] / self.ranks

    def nearest_condition(self):
        """The measured ranks and threads that are nearest to the run's: no more ranks, and the threads that each of them would have."""
        fitting = [(ranks, threads) for ranks, threads in self.file.conditions()
                   if [threads] == self.facts["threads_of_ranks"][ranks - 1 : ranks]]
        return fitting[-1] if fitting else (0, 0)

    def add_missing(self, part, *reasons):
        self.missing.setdefault(part, []).extend(reasons)

    def remainder_seconds(self, name):
        """Seconds of a phase of a step, without its ops."""
        return self.remainders.seconds(name, self.facts["layers"], self.facts["micro_batches"])

    def step_parts(self):
        parts, missing = op_parts(self.facts, self.prices)
        for part, reasons in missing.items():
            self.add_missing(part, *reasons)
        parts["between ops"] = parts["data"] = None
        if self.remainders:
            forward, backward, update, data = (self.remainder_seconds(name) for name in ("forward", "backward", "optimizer", "data"))
            parts["between ops"] = 3 * (forward * (1 + recomputed_share(self.facts)) + backward + update,)
            parts["data"] = 3 * (max(data, 0),)
        else:
            for part in ("between ops", "data"):
                self.add_missing(part, "no step of a model with these ops and collectives was measured")
        parts["exposed communication"] = self.exposed(parts)
        return {name: parts[name] for name in PARTS}

    def wait_for_images(self):
        """Adds it to the parts and to the step."""
        reading = self.feed.step()
        self.parts["wait for images"] = reading and self.computation and self.feed.wait(self.computation, reading)
        if not reading:
            self.add_missing("wait for images", "how fast images are read was not measured")
        self.step = reading and self.computation and self.feed.joint_time(self.computation, reading)

    def collectives(self, wanted):
        """The time of all collectives of these parts, or None."""
        times = []
        for call in self.facts["collectives"]:
            if call["part"] not in wanted:
                continue
            if not self.links.has(call["operation"]):
                self.add_missing("exposed communication", f"{call['operation']} was not measured")
                return None
            times.append(scaled(self.links.seconds(call["operation"], call["bytes"], call["ranks"]), call["calls"]))
        return plus(NOTHING, *times)

    def exposed(self, parts):
        """Communication is exposed by the share that it was in measured steps. For ranks or links that were not measured it is at least what
        is longer than the computation, which is least if the communication is shortest and the computation longest."""
        if self.facts["ranks"] == 1:
            return NOTHING
        exposed, sent = (self.remainder_seconds(name) if self.remainders else None for name in ("exposed", "sent"))
        if exposed is None or not sent > 0:
            self.add_missing("exposed communication", "no step of several ranks was measured with these ops")
            return None
        whole = self.collectives(("forward", "backward", "optimizer"))
        computation = total(parts[name] for name in ("forward ops", "backward ops", "recomputation", "between ops"))
        if whole is None or computation is None:
            if whole is not None:
                self.add_missing("exposed communication", "what it overlaps was not measured")
            return None
        exposed = scaled(whole, max(exposed, 0) / sent)
        if self.extrapolated:
            exposed = tuple(max(share, time - hidden, 0) for share, time, hidden in zip(exposed, whole, reversed(computation)))
        return exposed

    def evaluation_time(self):
        facts, steps = self.facts, self.facts["steps"]
        every = facts["evaluation_every"]
        between = (steps - 1) // every if every else 0
        if facts["final_samples"] is None or (between and facts["evaluation_samples"] is None):
            self.add_missing("evaluations", "their data cannot be read here, so their size is not known")
            return None
        if not calls_in(facts, "evaluation"):
            self.add_missing("evaluations", "their ops are known from the data alone")
            return None
        rounds = sum(-(-samples // facts["samples_per_round"]) * times
                     for samples, times in ((facts["evaluation_samples"] or 0, between), (facts["final_samples"], 1)))  # fmt: skip
        self.prices.missing = []
        ops = self.prices.sum(facts, "evaluation", "forward")
        exchanged = self.collectives(("evaluation",)) if facts["ranks"] > 1 else NOTHING
        if self.prices.missing or exchanged is None or not self.remainders:
            self.add_missing("evaluations", *(self.prices.missing or ["what is between their ops, or their communication, was not measured"]))
            return None
        forward = self.remainders.seconds("forward", facts["layers"], 1) / max(calls_in(facts, "forward"), 1)
        times = plus(ops, 3 * (forward * calls_in(facts, "evaluation"),), exchanged)
        if self.feed:
            reading = self.feed.seconds("evaluation", 1)
            if reading is None:
                self.add_missing("evaluations", "how fast images are read was not measured")
                return None
            times = self.feed.joint_time(times, reading)
        return tuple(max(time, 0) * rounds for time in times)  # what is between ops may be below 0

    def checkpoint_time(self):
        """A save holds the step back for a copy, and the end of the run for the write. At worst each write is waited for. The ranks of a
        machine that save share its disk."""
        steps, every = self.facts["steps"], self.facts["checkpoint_every"]
        saves = steps // every + (steps % every > 0) if every else 1
        if not self.storage:
            self.add_missing("checkpoints", "neither copies nor writes were measured")
            return None
        copy = scaled(self.storage["copy"], self.facts["saved_bytes"])
        write = scaled(self.storage["write"], self.facts["saved_bytes"] * min(self.facts["saving_ranks"], self.ranks))
        usual = plus(scaled(copy, saves), write)
        return usual[0], usual[1], plus(scaled(copy, saves), scaled(write, saves))[2]
