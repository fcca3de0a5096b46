# SPDX-License-Identifier: MIT
"""Reads what the commands of a demo wrote: their output and exit codes, folders of runs, lines of benchmarks."""
import json
import os
import re
import statistics


class Results:
    """Everything lies in one folder. A command has a name there: NAME.out, NAME.err and NAME.code."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def code(self, command):
        return int(self.text(f"{command}.code"))

    def output(self, command):
        return self.text(f"{command}.out")

    def rows(self, name):
        """Returns the objects of a file of JSON lines. A line that is half written is left out."""
        return [json.loads(line) for line in self.text(name).splitlines(keepends=True) if line.endswith("\n")]

    def bench_row(self, name):
        """Returns the line of NAME.json, which bench step appended."""
        return self.rows(f"{name}.json")[-1]

    def metrics(self, run):
        return self.rows(f"{run}/metrics.jsonl")

    def steps(self, run, key="loss"):
        """Returns a number of each step: loss, gradient_norm or milliseconds. A step that was trained again counts once."""
        by_step = {record["step"]: record[key] for record in self.metrics(run) if "loss" in record}
        return [by_step[step] for step in sorted(by_step)]

    def milliseconds(self, run):
        """Returns the median of the steps after the first five."""
        return statistics.median(self.steps(run, "milliseconds")[5:])

    def weights(self, run):
        """Returns {step: hash of all weights}, for the start and each checkpoint."""
        return {record["step"]: record["weights_sha256"] for record in self.metrics(run) if "weights_sha256" in record}

    def memory(self, run):
        """Returns {class: bytes of a rank} as memory.txt predicts them."""
        rows = re.findall(r"^  (\S.*?)  +([\d,]+) ", self.text(f"{run}/memory.txt"), re.MULTILINE)
        return {name: int(number.replace(",", "")) for name, number in rows}

    def levels(self, run):
        """Returns {op: the levels at which it runs} from kernels.txt."""
        lines = [line.split() for line in self.text(f"{run}/kernels.txt").splitlines()[1:] if line.strip()]
        return {words[0]: {word for word in words[1:] if word != "-"} for words in lines}
