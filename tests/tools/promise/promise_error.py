# SPDX-License-Identifier: MIT
"""Promises the steps of configurations that are drawn by lot, measures them with `bench step` before and after, and prints both.

    python3 tests/tools/promise/promise_error.py [--draws 12] [--seed 1] [--ranks 1] [--device cpu] [--strata tools/strata]

A configuration is small: text, vision or graph, with one thread a rank. Times are kept in a folder of this command
alone, so a promise never reads what an earlier command has measured. The last lines are the median and the worst error, and how far
the two measurements of a step are apart, which tells how quiet the machine was: no promise can be nearer."""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

HEAD = "run: {{folder: unused, seed: 1, ranks: {ranks}, device: {device}, threads: 1}}\nsteps: 50\nkernels: {{default: aten}}\n"
TAIL = "optimizer: {type: adamw, learning_rate: 1e-3}\nschedule: {type: constant}\n"


def text(draw):
    heads = draw.choice((2, 4))
    width = heads * draw.choice((32, 48))
    model = {"type": "transformer", "family": draw.choice(("gpt2", "llama")), "layers": draw.randint(4, 7), "heads": heads, "width": width,
             "feed_forward": 3 * width, "sequence": draw.choice((64, 128)), "vocabulary": draw.choice((256, 1000))}  # fmt: skip
    return model, {"type": "text", "train": "unused", "validation": "unused"}, draw.choice((4, 8))


def vision(draw):
    heads = draw.choice((2, 4))
    model = {"type": "vision_transformer", "layers": draw.randint(4, 7), "heads": heads, "width": heads * draw.choice((16, 32)), "image_size": 28,
             "patch": draw.choice((4, 7)), "channels": 1, "classes": 10, "pooling": "mean"}  # fmt: skip
    return model, {"type": "idx", "train_images": "a", "train_labels": "b", "validation_images": "c", "validation_labels": "d"}, draw.choice((16, 32))


def graph(draw):
    model = {"type": "graph_network", "convolution": draw.choice(("sage", "gcn")), "layers": draw.randint(4, 6), "width": draw.choice((64, 96)),
             "features": draw.choice((64, 128)), "classes": 10, "norm": True}  # fmt: skip
    nodes = draw.choice((2000, 4000))
    return model, {"type": "synthetic_graph", "nodes": nodes, "edges": 10 * nodes}, 1


def configuration(draw, kind, ranks, device):
    model, data, micro_batch = kind(draw)
    rounds = 1 if kind is graph else draw.randint(1, 3)
    batch = 1 if kind is graph else micro_batch * ranks * rounds
    sizes = f"batch: {batch}\nmicro_batch: {micro_batch}\nmodel: {json.dumps(model)}\ndata: {json.dumps(data)}\n"
    return HEAD.format(ranks=ranks, device=device) + sizes + TAIL


def call(strata, *arguments):
    return subprocess.run([strata, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def last_line(path):
    with open(path, encoding="utf-8") as file:
        return json.loads(file.readlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--strata", default="tools/strata")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    errors, apart = [], []
    with tempfile.TemporaryDirectory() as folder:
        config, times, said, taken = (os.path.join(folder, name) for name in ("drawn.yaml", "times.jsonl", "promise.jsonl", "steps.jsonl"))
        for number in range(options.draws):
            kind = (text, vision, graph)[number % 3]
            with open(config, "w", encoding="utf-8") as file:
                file.write(configuration(draw, kind, options.ranks, options.device))
            bench = ("bench", "step", config, "--json", taken, "--profile-steps", "0", "--steps", "60")
            call(options.strata, *bench)
            before = last_line(taken)["milliseconds"]
            call(options.strata, "measure", config, "--times", times)
            call(options.strata, "validate", config, "--promise", "--times", times, "--json", said)
            call(options.strata, *bench)
            promise, after = last_line(said), last_line(taken)["milliseconds"]
            if promise["step_seconds"] is None:
                raise SystemExit(f"no promise of {kind.__name__}; its words are above, and its configuration was:\n{read(config)}")
            promised, measured = 1e3 * promise["step_seconds"][1], (before + after) / 2
            error = promised / measured - 1
            errors.append(abs(error))
            apart.append(abs(after / before - 1))
            low, high = (1e3 * promise["step_seconds"][place] for place in (0, 2))
            print(f"{kind.__name__:6} promised {promised:8.2f} ms ({low:.2f} to {high:.2f}), measured {measured:8.2f} ms "
                  f"({before:.2f}, {after:.2f}), error {100 * error:+6.1f} %", flush=True)
    print(f"median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %, "
          f"of {len(errors)} configurations with {options.ranks} rank(s)")
    print(f"two measurements of a step: median {100 * statistics.median(apart):.1f} % apart, worst {100 * max(apart):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
