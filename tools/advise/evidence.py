# SPDX-License-Identifier: MIT
"""What a run has measured, as rules read it: times of steps without the profiler, and the time of each op from the profile."""
import math
import statistics
import typing

from bad_input import BadInput
from checked_values import is_finite
from profile_rows import COMMUNICATION, Profile

LEVELS = ("aten", "torchscript", "aot_inductor", "triton", "cuda")
STARTING_STEPS = 5  # caches, allocators and compiled functions are not ready yet, at the start and where weights begin to be pruned
UNSTEADY = ("evaluation", "checkpoint", "report")  # phases that only some steps have


class OpTime(typing.NamedTuple):
    """A row of the profile: milliseconds and calls of a step, on average. `level` is None for what is no op of Strata."""
    phase: str
    op: str
    backward: bool
    level: typing.Optional[str]
    layer: typing.Optional[int]
    milliseconds: float
    calls: float


class Evidence:
    """`configuration` has a text for each key. `compute` are the milliseconds of a step without evaluations and saves, `step` with
    them. Times of ops are scaled to a step without the profiler."""

    def __init__(self, run, configuration=None):
        self.run = run
        self.configuration = configuration or {key: value for key, (value, _) in run.configuration.items()}
        if self.configuration.get("model.type") is None:
            raise BadInput(f"{run.folder}: has no resolved.yaml with a model, so that there is no configuration to advise on")
        self.device, self.captured = "", False
        self.read_profile()
        first = self.first_step()
        plain = [index for index, step in enumerate(run.steps.steps) if step >= first and step not in self.profiled_steps]
        self.plain = [index for index in plain if run.steps.steps[index] >= first + STARTING_STEPS] or plain[len(plain) // 2:]
        self.profiled_compute = statistics.median([step["milliseconds"] for step in self.profiled]) if self.profiled else None
        self.compute = self.compute_time()
        if self.compute is None:
            self.compute = self.profiled_compute
        if not self.compute or not self.compute > 0:
            raise BadInput(f"{run.folder}: expected a run with the times of some steps, and it has none; train at least {STARTING_STEPS + 1} steps")
        self.step = self.compute
        for every, cost in (("evaluation.every", self.evaluation_cost()), ("checkpoint.every", self.save_cost())):
            if cost and self.integer(every) > 0:
                self.step += cost / self.integer(every)
        self.ops = self.read_ops()

    def value(self, key, default=""):
        return self.configuration.get(key, default).strip('"')

    def integer(self, key, default=0):
        try:
            return int(self.value(key))
        except ValueError:
            return default

    @property
    def on_gpu(self):
        return "nvidia" in self.device.lower()

    @property
    def ranks(self):
        return max(1, self.integer("run.ranks", 1))

    @property
    def samples_per_group(self):
        """Samples of a step for a rank, or for ranks that share sequences."""
        return self.integer("batch") * max(1, self.integer("sharding.sequence", 1)) // self.ranks

    @property
    def micro_batches(self):
        return max(1, self.samples_per_group // max(1, self.integer("micro_batch", 1)))

    def column(self, name, index):
        column = self.run.steps.columns.get(name)
        return column[index] if column is not None else math.nan

    def phase(self, name, index):
        value = self.column(("phases", name), index)
        return 0 if math.isnan(value) else value

    def median(self, step_value):
        values = [value for value in map(step_value, self.plain) if not math.isnan(value)]
        return statistics.median(values) if values else None

    def compute_time(self):
        """Returns the median milliseconds of a step without evaluations and saves. On GPUs their time is in the step after them, and if
        every step comes after one, only the profile has steps without them."""
        if self.has_phases:
            return self.median(lambda index: self.column("milliseconds", index) - sum(self.phase(name, index) for name in UNSTEADY))
        quiet = [index for index in self.plain if self.before(index) not in (*self.run.evaluations, *self.saves())]
        times = [self.column("milliseconds", index) for index in quiet or (() if self.profiled else self.plain)]
        times = [value for value in times if not math.isnan(value)]
        return statistics.median(times) if times else None

    @property
    def has_phases(self):
        return ("phases", "forward") in self.run.steps.columns

    def before(self, index):
        return self.run.steps.steps[index] - 1

    def pause(self, steps, others):
        """Returns for how many milliseconds a step is longer after one of `steps`, and after none of `others`; None if no step came so. It is
        what a pause costs on GPUs, where the host waits for the steps that it has queued."""
        longer = [self.column("milliseconds", index) - self.compute for index in self.plain if self.before(index) in steps and self.before(index) not in others]
        return statistics.median(longer) if longer and statistics.median(longer) > 0 else None

    def saves(self):
        """Returns the milliseconds of saves by the step after which they came."""
        return {step: value["milliseconds"] for step, kind, value in self.run.events
                if kind == "save" and isinstance(value, dict) and is_finite(value.get("milliseconds"))}  # fmt: skip

    @property
    def busy(self):
        """Milliseconds of a profiled step in which the device works. The profiler slows the host down, and a GPU is idle for it."""
        return statistics.median(step["milliseconds"] - (step["idle"] if self.on_gpu and is_finite(step.get("idle")) else 0) for step in self.profiled)

    @property
    def idle(self):
        """Milliseconds of a step, without the profiler, in which a GPU waits for the host or for the next kernel; 0 on CPUs."""
        return max(self.compute - self.busy, 0) if self.on_gpu and self.profiled else 0

    def phase_time(self, name):
        """Returns the median milliseconds of a phase, or None where phases are not timed, as on GPUs."""
        return self.median(lambda index: self.phase(name, index)) if ("phases", name) in self.run.steps.columns else None

    def evaluation_cost(self):
        """Returns the milliseconds of an evaluation, or None if none was seen."""
        if not self.has_phases:
            return self.pause(self.run.evaluations, self.saves())
        seen = [self.phase("evaluation", index) for index in range(len(self.run.steps.steps))]
        seen = [value for value in seen if value > 0]
        return statistics.median(seen) if seen else None

    def save_cost(self):
        """Returns for how many milliseconds a save stops the training thread, or None if none was seen."""
        steps, saves = self.run.steps.steps, self.saves()
        if not saves or not steps:
            return None
        if not self.has_phases:
            return self.pause(saves, self.run.evaluations) or statistics.median(saves.values())
        standing = sum(self.phase("checkpoint", index) for index in range(len(steps)))
        before_last = [pause for step, pause in saves.items() if step < steps[-1]]  # the save after the last step stops no training
        if standing and before_last:  # the phase also has the waits for the disk in later steps
            return standing / len(before_last)
        return statistics.median(before_last or saves.values())

    def read_profile(self):
        """Where some profiled steps have pruned weights, the dense ones are of a part of the run that is over, and do not count."""
        whole = self.run.profiles.get(0, Profile([], []))
        self.profiled_steps = {record["step"] for record in whole.steps}
        pruned = whole.part(True)
        self.pruned = bool(pruned.steps)
        self.profiled, self.rows = pruned if self.pruned else whole
        if self.profiled:
            self.device, self.captured = str(self.profiled[-1].get("device", "")), bool(self.profiled[-1].get("cuda_graph"))

    def first_step(self):
        """Returns the first step that does the same work as the profiled ones."""
        return max(1, self.integer("sparsity.from_step", 1)) if self.pruned else 1

    def read_ops(self):
        sums = {}
        for row in self.rows:
            key = (str(row["phase"]), str(row["op"]), bool(row["backward"]), row["level"] and str(row["level"]),
                   row["layer"] if isinstance(row["layer"], int) else None)  # fmt: skip
            total = sums.setdefault(key, [0, 0])
            total[0] += row["milliseconds"]
            total[1] += row["calls"]
        if not sums or not self.profiled_compute:
            return []
        # A profiled step is slower, and each op is taken to be as much slower as the work of the step.
        scale = min(1, self.compute / max(self.busy, 1e-6)) / len(self.profiled)
        return [OpTime(*key, milliseconds * scale, calls / len(self.profiled)) for key, (milliseconds, calls) in sums.items()]

    def profiled_mean(self, name):
        """Returns the mean of a time of the profiled steps, such as `exposed`, or 0."""
        times = [step[name] for step in self.profiled if is_finite(step.get(name))]
        return statistics.mean(times) if times else 0

    def time_of(self, condition):
        return sum(row.milliseconds for row in self.ops if condition(row))

    def communication(self, condition):
        """Returns the milliseconds of collectives that no computation hides."""
        whole = self.profiled_mean("communication")
        exposed = self.profiled_mean("exposed") / whole if whole else 0
        return exposed * self.time_of(lambda row: row.level in COMMUNICATION and condition(row))


