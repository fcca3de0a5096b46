# SPDX-License-Identifier: MIT
"""Measures what a rule needs for a prediction, by commands of tools/strata: plans of ops, the memory model, and short runs."""
import os
import re
import shutil
import subprocess
import typing

import yaml

from bad_input import BadInput
from command_group import outputs_of
from evidence import Evidence
from gpus import gpus_here
from run_folder import Run

GRACE = 10  # seconds in which a command may stop its ranks
STEPS, PROFILED = 24, 5  # of a short run; the profiled ones are the last
CONFIGURED = re.compile(r"([a-z_]+(?:\.[a-z0-9_]+)*) {2,}(\S.*?) {2,}\S.*")
PEAK = re.compile(r"  most at once +([0-9,]+) ")


class Described(typing.NamedTuple):
    configuration: dict
    bytes: typing.Optional[int]


class Plan:
    """Microseconds of ops at the shapes of a configuration, from a file of `tools/strata plan`."""

    def __init__(self, path):
        self.path = path
        with open(path, encoding="utf-8") as file:
            content = yaml.safe_load(file)
        self.levels, self.rows = content["levels"], content["measured"]

    def total(self, op, level, shape=None):
        """Returns the microseconds of all uses of an op, in a micro-batch or for the update of a step, or None."""
        rows = [row for row in self.rows if row["op"] == op and row["level"] == level and shape in (None, row["shape"])]
        if not rows or any("forward" not in row for row in rows):
            return None
        return sum(row["uses"] * (row["forward"] + row.get("backward", 0)) for row in rows)

    def level_of(self, op):
        """Returns the best level of an op. The rows of an op without a key of its own in `kernels:` name the key that covers it."""
        key = next((row["key"] for row in self.rows if row["op"] == op and "key" in row), op)
        return self.levels.get(key)


class Measure:
    """Commands for one configuration. Results are kept in `folder`, and each is measured once."""

    def __init__(self, strata, config, overrides, folder, say=lambda words: None):
        self.strata, self.config, self.overrides, self.folder, self.say = strata, config, tuple(overrides), folder, say
        self.known = {}
        # Without it `validate` would describe a run on GPUs, and refuse what only they lack.
        self.here = () if gpus_here() else ("run.device=cpu",)

    def run(self, *words, environment=None):
        """Returns the exit code of a command, and what it printed."""
        self.last_code, out, messages = outputs_of([self.strata, *words], GRACE, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
        self.last_words = " ".join((messages.strip() or out.strip()).splitlines()[-3:])
        return self.last_code, out

    def describe(self, extra=()):
        """Returns configuration and predicted memory of a rank, or None if the configuration is refused."""
        key = ("describe", tuple(extra))
        if key not in self.known:
            code, text = self.run("validate", self.config, *self.overrides, *extra, *self.here)
            lines = text.splitlines()
            pairs = {found[1]: found[2] for found in map(CONFIGURED.fullmatch, lines) if found}
            peak = next((int(found[1].replace(",", "")) for found in map(PEAK.match, lines) if found), None)
            self.known[key] = Described(pairs, peak) if code == 0 else None
        return self.known[key]

    def saved_bytes(self, extra):
        """Returns how many bytes less a rank is predicted to need with `extra`, or None."""
        before, after = self.describe(), self.describe(extra)
        return before.bytes - after.bytes if before and after and before.bytes and after.bytes else None

    def fits(self, extra):
        """Returns whether the memory with `extra` is predicted to fit into nine tenths of what there is."""
        after, limit = self.describe(extra), self.limit()
        return after is not None and (after.bytes is None or limit is None or after.bytes <= 0.9 * limit)

    def limit(self):
        """Returns the bytes that a rank may use: `memory_budget`, or the memory of its GPU, or its share of the memory that is free here."""
        if "limit" not in self.known:
            described = self.describe()
            wanted = described.configuration.get("memory_budget", "none") if described else "none"
            self.known["limit"] = int(float(wanted) * 2**30) if wanted != "none" else self.memory_of_device()
        return self.known["limit"]

    def memory_of_device(self):
        if self.on_gpu():
            if not shutil.which("nvidia-smi"):
                return None
            asked = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"],
                                   capture_output=True, text=True, check=False).stdout.split()  # fmt: skip
            return int(asked[0]) << 20 if asked and asked[0].isdigit() else None
        with open("/proc/meminfo", encoding="ascii") as file:
            found = re.search(r"MemAvailable: +([0-9]+) kB", file.read())
        return int(found[1]) * 1024 // max(1, int(self.describe().configuration.get("run.ranks", 1))) if found else None

    def on_gpu(self):
        return self.describe().configuration.get("run.device") != "cpu"

    def plan(self, extra=(), threads=0):
        """Returns the times of ops with `extra`, measured with `threads` threads (0: as the environment says), or None."""
        key = ("plan", tuple(extra), threads)
        if key not in self.known:
            path = os.path.join(self.folder, f"plan-{len(self.known)}.yaml")
            self.say(f"measuring the levels of the ops{' with ' + ' '.join(extra) if extra else ''}")
            code, _ = self.run("plan", self.config, *self.overrides, *extra, "--output", path,
                               environment={"OMP_NUM_THREADS": str(threads)} if threads else {})  # fmt: skip
            self.known[key] = Plan(path) if code == 0 else None
        return self.known[key]

    def take_run(self, extra=(), name="run", profile=True):
        """Trains a few steps with `extra` and returns the evidence. The configuration of the evidence is the one that was asked for,
        without the changes that make the run short."""
        described = self.describe(extra)
        if described is None:
            raise BadInput(f"{self.config} {' '.join(extra)}: the configuration is refused: {self.last_words}")
        folder = os.path.join(self.folder, name)
        shutil.rmtree(folder, ignore_errors=True)
        steps = min(STEPS, int(described.configuration["steps"]))
        short = [f"run.folder={folder}", f"run.stop_after={steps}", "run.restarts=0", "checkpoint.resume=never"]
        if profile:
            short.append(f"profile.steps={max(1, steps - PROFILED + 1)}-{steps}")
        if described.configuration["model.type"] == "transformer" and described.configuration["data.type"] == "text":
            short.append(f"evaluation.final_tokens={described.configuration['model.sequence']}")
        code, _ = self.run("train", self.config, *self.overrides, *extra, *short)
        if code != 0:
            raise BadInput(f"{self.config} {' '.join(extra)}: a short run ended with exit code {code}: {self.last_words}")
        return Evidence(Run(folder), described.configuration)
