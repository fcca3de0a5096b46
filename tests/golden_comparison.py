# SPDX-License-Identifier: MIT
"""Trains the same short runs with the programs of two builds and compares them bit for bit.

    .venv/bin/python tests/golden_comparison.py --before OLD/bazel-bin --after bazel-bin [--only WORD]

Both builds must be made on this machine, because bits differ between processors. A run is equal if weights_sha256 of every
checkpoint, every loss and every gradient norm are. What `validate` says of parameters, FLOPs and the classes of memory must be equal too."""
import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer"))
import training_runs  # noqa: E402

STEPS = ["steps=10", "checkpoint.every=5", "evaluation.every=5", "log.every=1"]
GPT2 = "model={{type: transformer, family: gpt2, layers: 3, width: 24, heads: 3, sequence: 12, vocabulary: 37, dropout: 0.1}}"
FAMILIES = {**training_runs.FAMILIES, "gpt2": [GPT2]}
FAMILIES.pop("mixer")  # which the binaries from before do not know
MIXED_LEVELS = "kernels={default: aten, linear: torchscript, layers: [{only: 1, layer_norm: aot_inductor, rms_norm: aot_inductor, activation: torchscript}]}"
MIXED_TYPES = "precision={compute: bfloat16, reduce: float32, layers: [{only: 1, compute: float32}]}"
# One difference from the default per variant, for each family that supports it.
VARIANTS = {
    "default": [], "torchscript": ["kernels={default: torchscript, cross_entropy: aten}"], "aot_inductor": ["kernels={default: aot_inductor, cross_entropy: aten}"], "mixed_levels": [MIXED_LEVELS],
    "none": ["sharding.strategy=none"], "kept": ["sharding.reshard_after_forward=false"], "accumulate_full": ["sharding.accumulate=full", "micro_batch=2"],
    "accumulate": ["micro_batch=2"], "checkpointing_full": ["gradient_checkpointing=full"], "checkpointing_selective": ["gradient_checkpointing=selective"],
    "checkpointing_mixed": ["gradient_checkpointing=[0 selective, 2]"], "bf16": ["precision={compute: bfloat16, reduce: float32}"],
    "bf16_reduce": ["precision={compute: bfloat16, reduce: bfloat16}", "micro_batch=2"], "mixed_types": [MIXED_TYPES],
    "bf16_torchscript": ["precision={compute: bfloat16, reduce: float32}", "kernels={default: torchscript, cross_entropy: aten}"],
}
WHOLE_GRAPH = {"accumulate", "accumulate_full", "bf16_reduce"}  # the whole graph is one micro-batch
NOT_OF_GRAPHS = {"torchscript", "aot_inductor", "mixed_levels", "bf16_torchscript"}  # levels that lack ops of graph networks; see AT_LEVELS


def runs():
    """Yields (name, family, overrides, ranks)."""
    for family in FAMILIES:
        graph = "graph" in family
        for variant, overrides in VARIANTS.items():
            if variant in WHOLE_GRAPH and family == "graph" or variant in NOT_OF_GRAPHS and graph:
                continue
            yield f"{family}_{variant}", family, overrides, 2
        for ranks in (1, 3):
            yield f"{family}_ranks{ranks}", family, ["batch=48"] if family not in ("graph",) else [], ranks
    for variant in ("torchscript",):
        yield f"graph_{variant}_linear", "graph", ["kernels={default: aten, linear: torchscript, layer_norm: torchscript, neighbor_aggregate: torchscript}"], 2
    yield "language_hybrid", "language", ["sharding={strategy: hybrid, shard_ranks: 2}", "batch=32"], 4
    yield "vision_hybrid", "vision", ["sharding={strategy: hybrid, shard_ranks: 2}", "batch=32"], 4


class Build:
    def __init__(self, folder, data, output):
        self.folder, self.data, self.output = os.path.abspath(folder), data, output
        os.makedirs(output)

    def program(self, name):
        return os.path.join(self.folder, name)

    def config(self, run):
        path = f"{self.output}/{run}.yaml"
        with open(path, "w", encoding="utf-8") as file:
            file.write(training_runs.CONFIG.format(folder=f"{self.output}/{run}", data=self.data, batch=16))
        return path

    def overrides(self, family, overrides):
        return [text.format(data=self.data) for text in FAMILIES[family]] + STEPS + overrides

    def train(self, run, family, overrides, ranks, *more):
        command = ["mpirun", "-q", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "-n", str(ranks), self.program("trainer/train"),
                   self.config(run), *self.overrides(family, overrides), f"run.ranks={ranks}", "run.device=cpu", "run.threads=1", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=dict(
            os.environ, STRATA_PACKAGES=self.program("kernels/cpu_packages"), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        if done.returncode != 0:
            return f"exit code {done.returncode}: {done.stderr.strip()[-400:]}"
        with open(f"{self.output}/{run}/metrics.jsonl", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if '"checkpoint":' not in line]  # the disk says when a save is finished
        kept = ("step", "loss", "gradient_norm", "weights_sha256", "validation_loss", "validation_accuracy")
        return [{key: line[key] for key in kept if key in line} for line in lines]

    def validate(self, run, family, overrides, ranks):
        program = self.program("trainer/validate")
        words = [program] if os.path.exists(program) else [self.program("trainer/check"), "--validate"]
        command = [*words, self.config(run), *self.overrides(family, overrides), f"run.ranks={ranks}", "run.device=cpu"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        text = (done.stdout + done.stderr).replace(self.output, "OUTPUT")
        return re.findall(r"(?m)^(?:parameters|FLOPs|  (?:master weights|moments|gradients|compute copy|moving average|weight)).*$", text)


def difference(before, after):
    if isinstance(before, str) or isinstance(after, str):
        return "" if before == after else f"before: {str(before)[:300]}; after: {str(after)[:300]}"
    for old, new in itertools.zip_longest(before, after):
        if old != new:
            return f"before {old}, after {new}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", required=True)
    parser.add_argument("--after", required=True)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    compared, failed, ended = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        data = folder + "/data"
        os.mkdir(data)
        training_runs.write_data(data)
        before, after = Build(arguments.before, data, folder + "/before"), Build(arguments.after, data, folder + "/after")
        for name, family, overrides, ranks in runs():
            if arguments.only not in name:
                continue
            old, new = (build.train(name, family, overrides, ranks) for build in (before, after))
            found = difference(old, new) or difference(before.validate(name, family, overrides, ranks), after.validate(name, family, overrides, ranks))
            if not found and not isinstance(old, str) and name.endswith(("_default", "_ranks3", "_accumulate")):
                # The new program resumes from the checkpoint of the old one.
                subprocess.run(["cp", "-r", f"{before.output}/{name}", f"{after.output}/{name}_resumed"], check=True)
                halves = [f"run.folder={after.output}/{name}_resumed", "steps=10", "checkpoint.resume=require"]
                subprocess.run(["rm", "-rf", f"{after.output}/{name}_resumed/checkpoints/step-00000010"], check=True)
                resumed = after.train(name + "_resumed", family, overrides, ranks, *halves)
                found = difference(old[-3:], resumed[-3:]) if not isinstance(resumed, str) else resumed
            compared += 1
            failed += bool(found)
            ended += isinstance(old, str)
            print(f"{'DIFFERS' if found else 'refused' if isinstance(old, str) else 'equal'}  {name}  {found or (old if isinstance(old, str) else '')}"[:600], flush=True)
    print(f"{compared - failed - ended} runs equal, {failed} differ, {ended} refused by both in the same words")
    return 1 if failed or compared == ended else 0


if __name__ == "__main__":
    sys.exit(main())
