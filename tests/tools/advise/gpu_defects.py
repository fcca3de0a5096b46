# SPDX-License-Identifier: MIT
"""Puts 20 defects into four configurations on one GPU, asks for advice, and prints which comes first and how its prediction was: a proof
for machines with a GPU. A folder of `tools/strata dist` suffices.

    python3 -B tests/tools/advise/gpu_defects.py tools/strata [--only WORD] [--limit SECONDS] [--json FILE]

The gain of an advice is what a step with the defect takes longer than one without it: each configuration also runs as it is. Runs and plans
come one at a time, and what needs no GPU beside them. Plans are shared by defects that change no shape and no type. Defects that FILE has
already, from an earlier command, are counted and not tried again."""
import argparse
import concurrent.futures
import contextlib
import json
import os
import statistics
import struct
import sys
import tempfile
import threading
import time
import typing

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "tools")
sys.path[:0] = [os.path.join(TOOLS, name) for name in ("advise", "report", "")]

import rules  # noqa: E402
import rules_of_steps  # noqa: E402
from advice import milliseconds_text, ranked  # noqa: E402
from bad_input import BadInput  # noqa: E402
from measure import Measure, Plan  # noqa: E402
from trials import merged  # noqa: E402

COMMON = """run: {folder: unused, seed: 1, ranks: 1, device: cuda}
steps: 2000
optimizer: {type: adamw, learning_rate: 1e-4}
schedule: {type: constant}
precision: {compute: bfloat16}
kernels: {default: best}
checkpoint: {every: 0, keep: 2}
"""
TEXT = "data: {{type: text, train: {folder}/tokens.bin, validation: {folder}/tokens.bin}}\nevaluation: {{every: 0, tokens: 65536}}\n"
CONFIGS = {
    "gpt2": TEXT + """batch: 16
micro_batch: 16
model: {{type: transformer, family: gpt2, layers: 4, width: 768, heads: 12, sequence: 512, vocabulary: 50304}}
""",
    "llama": TEXT + """batch: 8
micro_batch: 8
model: {{type: transformer, family: llama, layers: 6, width: 512, heads: 8, feed_forward: 1536, sequence: 512, vocabulary: 8192}}
""",
    "vision": """batch: 32
micro_batch: 32
model: {{type: vision_transformer, layers: 8, width: 384, heads: 6, image_size: 224, patch: 16, channels: 3, classes: 100, pooling: mean}}
data: {{type: idx, train_images: {folder}/images, train_labels: {folder}/labels, validation_images: {folder}/images, validation_labels: {folder}/labels}}
""",
    "graph": """batch: 1
micro_batch: 1
model: {{type: graph_network, convolution: sage, features: 128, layers: 3, width: 256, classes: 40}}
data: {{type: synthetic_graph, nodes: 169343, edges: 2315598}}
""",
}  # fmt: skip
IMAGES = 256


class Defect(typing.NamedTuple):
    config: str
    expected: str  # the rule whose advice must come first
    overrides: tuple


TORCHSCRIPT, FULL, EAGER = ("kernels={default: torchscript}",), ("gradient_checkpointing=full",), ("cuda_graph=off",)
DEFECTS = (
    Defect("graph", "levels", TORCHSCRIPT),
    Defect("graph", "recomputation", FULL),
    Defect("graph", "step graph", EAGER),
    Defect("graph", "checkpoints", ("checkpoint.every=1",)),
    Defect("graph", "evaluations", ("evaluation.every=1",)),
    Defect("vision", "levels", TORCHSCRIPT),
    Defect("vision", "recomputation", FULL),
    Defect("vision", "step graph", EAGER),
    Defect("vision", "micro-batch", ("micro_batch=4",)),
    Defect("vision", "memory", ("batch=8192", "micro_batch=8192")),
    Defect("llama", "levels", TORCHSCRIPT),
    Defect("llama", "recomputation", FULL),
    Defect("llama", "step graph", EAGER),
    Defect("llama", "checkpoints", ("checkpoint.every=4",)),
    Defect("llama", "evaluations", ("evaluation.every=4",)),
    Defect("gpt2", "levels", TORCHSCRIPT),
    Defect("gpt2", "recomputation", FULL),
    Defect("gpt2", "vocabulary", ("model.vocabulary=50257",)),
    Defect("gpt2", "micro-batch", ("micro_batch=2",)),
    Defect("gpt2", "compute type", ("precision.compute=float32",)),
)
ON_PLANS = ("model", "micro_batch", "precision")  # sections and keys on which a plan depends


class Late(Exception):
    """The time of --limit is over."""


class OneGpu(Measure):
    """Runs and plans wait for the GPU. `plans` has those of all defects."""
    gpu, plans, end = threading.Lock(), {}, 0.0

    def run(self, *words, environment=None):
        with self.gpu if words[0] in ("train", "plan") else contextlib.nullcontext():
            if time.monotonic() > self.end:
                raise Late
            return super().run(*words, environment=environment)

    def plan(self, extra=(), threads=0):
        overrides = merged(self.overrides, extra)
        key = (self.config, *sorted(override for override in overrides if override.partition("=")[0].partition(".")[0] in ON_PLANS))
        with self.gpu:  # who comes second finds the plan of the first
            known = self.plans.setdefault(key, concurrent.futures.Future())
            mine = not (known.running() or known.done()) and known.set_running_or_notify_cancel()
        if mine:
            try:
                # In its usual place, where runs at `best` find it.
                code, out = self.run("plan", self.config, *merged(overrides, ("kernels={default: best}",)))
                known.set_result(Plan(out.split()[-1]) if code == 0 else None)
            except BaseException as failed:
                known.set_exception(failed)
        return known.result()


def write_data(folder):
    """Random tokens in the format of llm.c, and random images in that of IDX."""
    with open(os.path.join(folder, "tokens.bin"), "wb") as file:
        count = 1 << 20
        file.write(struct.pack("<256i", 20240801, 7, count, *[0] * 253))
        file.write(b"".join(struct.pack("<i", number % 8192) for number in os.urandom(count)))
    for name, sizes, most in (("images", (IMAGES, 3, 224, 224), 256), ("labels", (IMAGES,), 100)):
        count = 1
        for size in sizes:
            count *= size
        with open(os.path.join(folder, name), "wb") as file:
            file.write(bytes((0, 0, 8, len(sizes))) + struct.pack(f">{len(sizes)}i", *sizes))
            file.write(os.urandom(count) if most == 256 else bytes(byte % most for byte in os.urandom(count)))


def clean_step(strata, config, folder):
    """Milliseconds of a step of the configuration as it is, and its advice."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        measure = OneGpu(strata, config, (), own)
        measure.plan()
        evidence = measure.take_run()
        return evidence.step, ranked(rules.advices(evidence, measure))


def advise(strata, defect, config, clean, folder):
    """Returns the line of JSON of a defect."""
    line = {"config": defect.config, "defect": " ".join(defect.overrides), "expected": defect.expected}
    with tempfile.TemporaryDirectory(dir=folder) as own:
        measure = OneGpu(strata, config, defect.overrides, own)
        too_large = rules_of_steps.memory(None, measure)
        if too_large:
            return {**line, "first": too_large.rule, "right": too_large.rule == defect.expected, "advice": too_large.overrides}
        without, _ = clean.result()
        if any(override.partition("=")[0].partition(".")[0] in ON_PLANS for override in defect.overrides):
            measure.plan()  # `best` needs it
        evidence = measure.take_run()
        found = ranked(rules.advices(evidence, measure))
        first = found[0] if found else None
        gain = evidence.step - without
        return {**line, "step_ms": evidence.step, "clean_ms": without, "first": first and first.rule, "right": bool(first) and first.rule == defect.expected,
                "advice": first and first.overrides, "predicted_ms": first and first.milliseconds, "measured_ms": gain,
                "error": first.milliseconds / gain - 1 if first and first.milliseconds and gain > 0 else None,
                "busy_ms": evidence.busy, "idle_ms": evidence.idle, "captured": evidence.captured,
                "all": [(advice.rule, milliseconds_text(advice.milliseconds)) for advice in found]}  # fmt: skip


def text(line):
    if "failed" in line:
        return f"{line['config']:7} {line['expected']:14} failed: {line['failed']}"
    if "step_ms" not in line:
        return f"{line['config']:7} {line['expected']:14} {'right' if line['right'] else 'WRONG'}: {line['first']} {line['advice']}"
    predicted = "none" if line["predicted_ms"] is None else f"{line['predicted_ms']:.3f}"
    error = "" if line["error"] is None else f", error {100 * line['error']:+.0f} %"
    return (f"{line['config']:7} {line['expected']:14} {'right' if line['right'] else 'WRONG'}: a step {line['step_ms']:.3f} ms, {line['clean_ms']:.3f} ms without; "
            f"predicted {predicted} ms, measured {line['measured_ms']:.3f} ms{error}; {line['all']}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--only", default="", help="only defects whose configuration or expected advice has this word")
    parser.add_argument("--limit", type=float, default=1e6, help="seconds after which nothing new is run")
    parser.add_argument("--json", default=os.devnull)
    options = parser.parse_args()
    OneGpu.end = time.monotonic() + options.limit
    strata, json_file = os.path.abspath(options.strata), open(options.json, "a+", encoding="utf-8")
    json_file.seek(0)
    lines = [line for line in map(json.loads, json_file) if "failed" not in line]
    known = {(line["config"], line["defect"]) for line in lines}
    for line in lines:
        print(text(line), flush=True)
    wanted = [defect for defect in DEFECTS if options.only in f"{defect.config}/{defect.expected}"]
    wanted = [defect for defect in wanted if (defect.config, " ".join(defect.overrides)) not in known]
    with json_file, tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(6) as several:
        os.chdir(folder)  # for plans
        write_data(folder)
        clean, configs = {}, {}
        for name in dict.fromkeys(defect.config for defect in wanted):
            configs[name] = os.path.join(folder, name + ".yaml")
            with open(configs[name], "w", encoding="utf-8") as file:
                file.write(COMMON + CONFIGS[name].format(folder=folder))
            clean[name] = several.submit(clean_step, strata, configs[name], folder)
        asked = {several.submit(advise, strata, defect, configs[defect.config], clean[defect.config], folder): defect for defect in wanted}
        for done in concurrent.futures.as_completed(asked):
            defect = asked[done]
            try:
                line = done.result()
            except (BadInput, Late) as failed:
                line = {"config": defect.config, "expected": defect.expected, "right": False, "failed": str(failed) or "no time was left"}
            lines.append(line)
            print(text(line), flush=True)
            json_file.write(json.dumps(line) + "\n")
            json_file.flush()
        for name, of_config in clean.items():
            with contextlib.suppress(BadInput, Late):
                step, found = of_config.result()
                print(f"{name:7} without a defect: {step:.3f} ms, advice: {[(advice.rule, milliseconds_text(advice.milliseconds)) for advice in found]}")
    tried = [line for line in lines if "failed" not in line]
    errors = [(abs(line["error"]), line) for line in tried if line.get("error") is not None and line["right"]]
    print(f"the right advice came first for {sum(line['right'] for line in tried)} of {len(tried)} defects; {len(lines) - len(tried)} failed or were left")
    if errors:
        worst = max(errors, key=lambda pair: pair[0])
        print(f"error of {len(errors)} predicted gains: median {100 * statistics.median(error for error, _ in errors):.1f} %, "
              f"worst {100 * worst[1]['error']:+.1f} % ({worst[1]['config']}, {worst[1]['expected']})")  # fmt: skip


if __name__ == "__main__":
    main()
