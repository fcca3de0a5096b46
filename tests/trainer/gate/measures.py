# SPDX-License-Identifier: MIT
"""What the performance gate measures: counts of a step, steps until a loss, and instructions. None of it is a time."""
import collections
import concurrent.futures
import json
import os
import re
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../../tools/bench")]
from bench_runs import STEP, BenchRuns  # noqa: E402
from training_runs import TrainingRuns, command_of_ranks  # noqa: E402

CHECK = os.path.abspath("trainer/check")
WORK = os.path.abspath("tests/trainer/gate/counted_work")
QUICKSTART = os.path.join(HERE, "../../../configs/quickstart.yaml")
# Buffers of some operators grow with the threads.
COMMON = ["run.device=cpu", "run.threads=1"]

# Family of models, level of all ops, gradient checkpointing, ranks.
FAMILIES = ("gpt2", "llama", "vision", "graph")
CASES = [(family, *how) for family in FAMILIES for how in (("aten", "none", 1), ("aten", "none", 2), ("aten", "full", 1))]
CASES += [(family, level, "none", 1) for family, level in (("llama", "torchscript"), ("graph", "torchscript"),
                                                           ("llama", "aot_inductor"), ("vision", "aot_inductor"))]  # fmt: skip


def name_of(family, level, checkpointing, ranks):
    return f"a step of {family}, level {level}, gradient checkpointing {checkpointing}, ranks {ranks}"


class CountedSteps(BenchRuns):
    """Small models, and what their steps do."""

    def setUp(self):
        super().setUp()
        self.configs = {family: self.write_config(family) for family in FAMILIES}

    def counts(self, family, level, checkpointing, ranks, *overrides, environment=None):
        """Returns the counts of one step, added up over the ranks."""
        batch = ["batch=1"] if family == "graph" else ["batch=4"]
        command = [STEP, self.configs[family], *COMMON, f"run.ranks={ranks}", *batch, "micro_batch=1", "gradient_checkpointing=" + checkpointing,
                   *overrides, "--level", level, "--warm-up", "5", "--steps", "1", "--profile-steps", "0"]  # fmt: skip
        if ranks > 1:
            command = command_of_ranks(ranks, *command)
        with tempfile.NamedTemporaryFile(dir=self.folder) as row:
            self.run_program(*command, "--json", row.name, environment=environment)
            result = json.load(row)
        added = collections.Counter()
        for of_rank in result["counts"]:
            added.update({key: of_rank[key] for key in ("operators", "allocations", "allocated_bytes")})
            for collective, numbers in of_rank["collectives"].items():
                added.update({f"{collective}.{key}": number for key, number in numbers.items()})
        return dict(added)

    def counts_of_cases(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return dict(zip(map(lambda case: name_of(*case), CASES), pool.map(lambda case: self.counts(*case), CASES)))


LOSS, MOST_STEPS = 1, 200
TRAINING = f"a small Llama until its loss is {LOSS}"


class CountedTraining(TrainingRuns):
    """A training run with fixed data, and the steps that it takes."""

    def steps_until_loss(self, *overrides, environment=None):
        """Returns the first step at which the mean loss of the last 5 steps is at most LOSS; MOST_STEPS if there is none."""
        every = [f"{key}.every={MOST_STEPS}" for key in ("checkpoint", "evaluation")]
        self.train("until", f"steps={MOST_STEPS}", "log.every=1", *every, "model.dropout=0", *COMMON, *overrides, ranks=1, environment=environment)
        losses = self.losses("until")
        shutil.rmtree(self.path("until"))
        return {"steps": next((step for step in range(5, MOST_STEPS) if sum(losses[step - 5:step]) / 5 <= LOSS), MOST_STEPS)}


# The work that counted_work does n times, and n.
WORK_SIZES = {"hash": 200, "content": 100, "order": 5_000, "tokens": 2_000}
START = "check of the quick start"


def name_of_work(work):
    return f"{work}, for {WORK_SIZES[work]} more"


class CountedInstructions(BenchRuns):
    """Programs without LibTorch under callgrind, which counts the instructions of a simulated processor."""

    def instructions(self, *command):
        self.run_program("valgrind", "--tool=callgrind", "--callgrind-out-file=" + self.folder + "/callgrind", *command)
        with open(self.folder + "/callgrind", encoding="utf-8") as file:
            return int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.MULTILINE)[1])

    def instructions_of_work(self, work):
        """Returns those of n more, so that those of the program's start are left out."""
        size = WORK_SIZES[work]
        one, two = (self.instructions(WORK, work, str(count), self.folder + "/data.bin") for count in (size, 2 * size))
        return {"instructions": two - one}

    def instructions_of_all(self):
        return {START: {"instructions": self.instructions(CHECK, QUICKSTART)},
                **{name_of_work(work): self.instructions_of_work(work) for work in WORK_SIZES}}  # fmt: skip


def why_no_instructions():
    """Returns why instructions are not counted here; empty if they are."""
    if "STRATA_TEST_SLOWDOWN" in os.environ:
        return "a program that is built for a sanitizer has other instructions"
    return "" if shutil.which("valgrind") else "valgrind is not installed"


NAMES = [*(name_of(*case) for case in CASES), TRAINING, START, *map(name_of_work, WORK_SIZES)]
