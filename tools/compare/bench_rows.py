# SPDX-License-Identifier: MIT
"""Reads the lines that `bench ... --json` appends to a file: what was measured, how, and the times of each repetition."""
import json
import typing

from bad_input import BadInput
from checked_values import is_finite


class Kind(typing.NamedTuple):
    """How to read the lines of one benchmark."""
    name: str
    work: tuple  # the keys that say what was measured; rows with equal values are compared, and a line must have them. STEP has LEVEL too
    circumstances: tuple  # keys that may differ, and are told then
    measures: dict  # {key: whether a larger value is slower}


STEP, LEVEL = "bench step", "level"  # a line of bench levels, or of bench step with --level, is one of bench step with a level
KINDS = (
    Kind("bench kernels", ("op", "shape", "dtype", LEVEL, "direction"), ("device", "torch", "kernels"), {"microseconds": True}),
    Kind("bench modules", ("module", "config", "input", "dtype", LEVEL), ("device", "torch"),
         {"forward_milliseconds": True, "backward_milliseconds": True}),
    Kind(STEP, ("ranks", "batch", "micro_batch"), ("device", "communication", "deterministic", "cuda_graph", "skipped_steps", "loss"),
         {"milliseconds": True}),
    Kind("bench generate", ("dtype", "prompts", "tokens_per_prompt", "weight_bytes"), ("device", "cache_bytes"),
         {"prompts_milliseconds": True, "step_milliseconds": True}),
    Kind("bench images", ("width", "height", "size", "threads", "bytes_per_image"), (), {"augmented_images_per_second": False}),
)
LARGEST = 1e300  # of a measured value
FLOPS, RATE = "model_teraflops_per_rank", "_per_second_and_rank"  # a key, and the end of one
NOT_TIMED = "not_timed"  # the key with the reason in a row of bench kernels, modules or levels


class BenchRows:
    """`times` has {row: its values in the order of the file, larger is slower}, `refused` {row: why it was not timed}, and
    `circumstances` {key: set of values}. A row is a text."""

    def __init__(self, path):
        self.path, self.times, self.refused, self.circumstances, self.kinds = path, {}, {}, {}, set()
        self.steps, self.levels_without_step = [], {}  # (work, model) of lines with levels, and {level: why it was not timed}
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    self.read(number, line)
        for level, reason in self.levels_without_step.items():
            for row in {row_of_level(work, level, model) for work, model in self.steps or [("", "")]} - self.times.keys():
                self.refused[row] = reason
        if not self.times and not self.refused:
            raise BadInput(f"{path}: is empty; expected lines that `tools/strata bench ... --json` has written")

    def read(self, number, line):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{self.path}:{number}: is not a whole line of JSON; expected one that `bench ... --json` has written") from error
        if isinstance(record, dict) and record.keys() == {LEVEL, NOT_TIMED}:  # bench levels: the run of this level ended before it had a shape
            self.kinds.add(STEP)
            self.levels_without_step[str(record[LEVEL])] = record[NOT_TIMED]
            return
        kind = next((kind for kind in KINDS if isinstance(record, dict) and all(key in record for key in kind.work)), None)
        if kind is None:
            names = ", ".join(kind.name for kind in KINDS)
            raise BadInput(f"{self.path}:{number}: is of no benchmark that can be compared; expected a line of {names}")
        self.kinds.add(kind.name)
        for key, value in record.items():
            if (key == FLOPS or key.endswith(RATE)) and not is_amount(value):
                raise BadInput(f"{self.path}:{number}: {key} is {value}, expected a number; another version may have written it")
        for key in kind.circumstances:
            if key in record:
                self.circumstances.setdefault(key, set()).add(str(record[key]))
        work, model = " ".join(str(record[key]) if kind.name == "bench kernels" else f"{key}={record[key]}" for key in kind.work), model_of(record)
        if kind.name == STEP and LEVEL in record:
            self.steps.append((work, model))
            work = row_of_level(work, record[LEVEL], model)
        else:
            work += model
        rows = {key: work if len(kind.measures) == 1 else f"{work} {key}" for key in kind.measures}
        if NOT_TIMED in record:
            self.refused.update(dict.fromkeys(rows.values(), record[NOT_TIMED]))
            return
        for key, larger_is_slower in kind.measures.items():
            value = record.get(key)
            if not is_amount(value) or not value:
                raise BadInput(f"{self.path}:{number}: {key} is {value}, expected a number above 0; another version may have written it")
            self.times.setdefault(rows[key], []).append(value if larger_is_slower else 1 / value)


def row_of_level(work, level, model):
    return f"{work} {LEVEL}={level}{model}".lstrip()


def model_of(record):
    """Returns the model FLOPs of a token, image or node. A line of bench step names no model, and these tell two apart."""
    rate = next((value for key, value in record.items() if key.endswith(RATE)), 0)
    return f" flops_per_item={1e12 * record.get(FLOPS, 0) / rate:.6g}" if rate else ""


def is_amount(value):
    return is_finite(value, LARGEST) and value >= 0
