# SPDX-License-Identifier: MIT
"""a step trained again: equal bit for bit, or the first difference is named

Each rank records the hashes of what it read, its loss and its gradient norm. A replay trains steps again from a checkpoint
and compares. This demo replays a healthy run, and then one in which a fault flips one bit of the weights of layer 1 on
rank 1 at step 12, as a broken memory could. The replay has no fault, so it differs from that step on."""
import re

import findings

READ = "docs/replay.md"
STEP, RANK, LAYER = 12, 1, 1
SHAPE = ["--ranks", "2", "checkpoint.every=5"]


def run(lab):
    lab.prepare_text()
    lab.train("healthy", *SHAPE)
    lab.strata("replay-healthy", "replay", "healthy", "--step", "20")
    lab.train("flipped", *SHAPE, f"fault={{at: step {STEP} rank {RANK} layer {LAYER}, kind: flip_weight}}", faults=True)
    lab.strata("replay-flipped", "replay", "flipped", "--step", "15", expect=(0, 5))
    lab.strata("locate", "replay", "flipped", "--step", str(STEP), "--locate", expect=(0, 5), faults=True)


def verdict(results, command):
    return next((line for line in reversed(results.output(command).splitlines()) if line.startswith(("equal", "different"))), "no verdict")


def check(results):
    code, said = results.code("replay-healthy"), verdict(results, "replay-healthy")
    equal = code == 0 and said.startswith("equal: ") and said.endswith(", bit for bit")
    yield findings.claim("the replay of the healthy run", equal, "exit code 0 and equal, bit for bit", f"exit code {code}, {said}")
    pairs = zip(results.steps("healthy"), results.steps("flipped"))
    first = next((step for step, (a, b) in enumerate(pairs, 1) if a != b), None)
    yield findings.equal("the first step whose loss the flipped bit changed, by metrics.jsonl", STEP, first)
    code, said = results.code("replay-flipped"), verdict(results, "replay-flipped")
    different = code == 5 and re.match(rf"different: step {STEP}\b", said)
    yield findings.claim("the replay of the flipped run", different, f"exit code 5 and different: step {STEP}", f"exit code {code}, {said}")
    code, said = results.code("locate"), verdict(results, "locate")
    located = code == 5 and re.match(rf"different: step {STEP}, rank {RANK}, .*\bblocks\.{LAYER}\b", said)
    yield findings.claim("--locate names the place", located, f"exit code 5 and step {STEP}, rank {RANK}, blocks.{LAYER}",
                         f"exit code {code}, {said}")
