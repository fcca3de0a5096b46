# SPDX-License-Identifier: MIT
"""Reads the metrics.jsonl of a run: what each step computed, and which steps can be timed."""
import bisect
import os
import sys

from bad_input import BadInput
from checked_values import is_finite, object_of

STEP_KEYS = ("loss", "gradient_norm", "milliseconds")
LOSSES = {"validation_loss"}  # of an evaluation, which has a line of its own


class RunMetrics:
    """`steps` holds the records of steps by their number, `evaluations` validation losses and `weights` hashes of weights by step, `notes`
    what a reader must know."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "metrics.jsonl")
        self.steps, self.evaluations, self.weights, self.notes = {}, {}, {}, []
        self.starts = [0]  # the steps after which a process began
        self.last, self.repeated, self.damaged = 0, 0, []
        with open(self.path, "rb") as file:
            *lines, rest = file.read().split(b"\n")
        for number, line in enumerate(lines, 1):
            self.read(number, line)
        if not self.steps:
            raise BadInput(f"{self.path}: has no step in its {len(lines)} lines; expected a run that has trained at least one")
        if rest:
            self.notes.append("the last line was not written to its end, and is left out")
        if self.damaged:
            self.notes.append(f"{len(self.damaged)} lines are damaged and left out, the first is line {self.damaged[0]}")
        if self.repeated:
            self.notes.append(f"{self.repeated} steps were trained again after a resume; the later lines count")
        if missing := max(self.steps) - min(self.steps) + 1 - len(self.steps):
            self.notes.append(f"{missing} steps between the first and the last are missing")
        if lost := sum(record["loss"] is None for record in self.steps.values()):
            self.notes.append(f"the losses of {lost} steps are not finite")

    def read(self, number, line):
        record = object_of(line)
        if record is None:
            self.damaged.append(number)
            return
        step = record.get("step")
        missing = [key for key in ("step", *(STEP_KEYS if "loss" in record else ()), *LOSSES.intersection(record)) if not is_null_or_number(record.get(key, ""))]
        if missing or not isinstance(step, int):
            raise BadInput(f"{self.path}:{number}: has no number as {(missing or ['step'])[0]}, so that another version may have written it; "
                           f"expected lines with step, and lines of steps with {', '.join(STEP_KEYS)}")
        if "loss" in record:
            self.cut_back(step)
            self.steps[step], self.last = record, step
        if "validation_loss" in record:
            self.evaluations[step] = record["validation_loss"]
        if "weights_sha256" in record:
            self.weights[step] = record["weights_sha256"]
        if "rollback" in record or record.get("checkpoint") == step:  # what a run writes first after it has resumed
            self.starts.append(step)

    def cut_back(self, step):
        """Forgets steps from this one on, as a run that resumes does: steps behind a repeated one are of a training that was left."""
        if step > self.last:
            return
        for old in [old for old in self.steps if old >= step]:
            self.repeated += self.steps.pop(old) is not None
        self.weights, self.evaluations = ({old: value for old, value in series.items() if not step <= old <= self.last}
                                          for series in (self.weights, self.evaluations))

    def milliseconds(self, warm_up):
        """Returns {step: milliseconds} without the first `warm_up` steps of each process, which allocate, compile and capture."""
        starts = sorted(self.starts)
        before = {step: bisect.bisect_left(starts, step) for step in self.steps}  # how many
        times = {step: self.steps[step]["milliseconds"] for step, count in before.items() if not count or step - starts[count - 1] > warm_up}
        return {step: time for step, time in times.items() if time is not None and time > 0}


def is_null_or_number(value):
    """A number that is not finite is null in the file."""
    return value is None or is_finite(value, sys.float_info.max if isinstance(value, float) else (1 << 63) - 1)
