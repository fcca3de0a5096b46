# SPDX-License-Identifier: MIT
"""Trains pairs of equal runs in turn, and counts how often `compare` calls one of them slower or faster, as pairs and in groups of five:

    .venv/bin/python -B tests/tools/compare/real_pairs.py --pairs 200 --folder /tmp/pairs

needs the built train program. The times of B are also multiplied by 1.03, as if its program were slower by 3 %: that must be found. What stands in the
folder already is not trained again."""

import argparse
import collections
import json
import os
import re
import subprocess
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAIN = os.path.join(os.path.dirname(TESTS), "tools", "compare", "main.py")
os.environ.setdefault("STRATA_TEST_TRAIN", os.path.join(os.path.dirname(TESTS), "bazel-bin", "trainer", "train"))
sys.path.insert(1, os.path.join(TESTS, "trainer"))

from training_runs import TrainingRuns  # noqa: E402

# Steps of about 5 ms on one core, of which 300 are left after the warm-up.
RUN = ["steps=310", "model.width=48", "model.heads=3", "model.sequence=32", "model.feed_forward=128", "schedule={type: constant}", "evaluation.every=0",
       "checkpoint.every=0", "log.every=1000", "run.threads=1"]
SLOWDOWN = 1.03
GROUP = 5  # runs of each side


def train(runs, folder, name):
    """Trains a run, and keeps of its folder what a comparison reads."""
    kept = os.path.join(folder, name)
    if os.path.exists(os.path.join(kept, "resolved.yaml")):
        return
    os.makedirs(kept, exist_ok=True)
    runs.train(name, *RUN, ranks=1, batch=8, device="cpu")
    for file in ("metrics.jsonl", "resolved.yaml"):
        with open(runs.path(name, file), encoding="utf-8") as source, open(os.path.join(kept, file), "w", encoding="utf-8") as copy:
            copy.write(source.read())
    subprocess.run(["rm", "-r", runs.path(name)], check=True)


def slow_down(folder, name):
    """Returns the folder of a copy of the run, whose steps take longer."""
    slow = os.path.join(folder, name + "-slower")
    os.makedirs(slow, exist_ok=True)
    with open(os.path.join(folder, name, "metrics.jsonl"), encoding="utf-8") as source, open(os.path.join(slow, "metrics.jsonl"), "w", encoding="utf-8") as copy:
        for line in map(json.loads, source):
            copy.write(json.dumps({**line, "milliseconds": line["milliseconds"] * SLOWDOWN} if "milliseconds" in line else line) + "\n")
    return slow


def verdict(*words):
    """Returns the verdict on times, and the difference that was found in percent."""
    done = subprocess.run([sys.executable, MAIN, "--only", "times", *words], capture_output=True, text=True, check=False)
    found = re.search(r"^times: (\w+): B against A ([-+.\d]+) %", done.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(done.stdout + done.stderr)
    return found[1], float(found[2])


def tell(name, verdicts):
    differences = sorted(abs(difference) for _, difference in verdicts)
    print("%s: %s; median of the differences %.2f %%, largest %.2f %%" % (
        name, dict(collections.Counter(word for word, _ in verdicts)), differences[len(differences) // 2], differences[-1]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--folder", required=True)
    arguments = parser.parse_args()
    runs = TrainingRuns()
    runs.setUp()
    try:
        for pair in range(arguments.pairs):
            for side in "ab":
                train(runs, arguments.folder, "%s%d" % (side, pair))
    finally:
        runs.tearDown()
    first, second = ([os.path.join(arguments.folder, "%s%d" % (side, pair)) for pair in range(arguments.pairs)] for side in "ab")
    slower = [slow_down(arguments.folder, "b%d" % pair) for pair in range(arguments.pairs)]
    groups = range(0, arguments.pairs - GROUP + 1, GROUP)
    for name, other in (("equal", second), ("slower by 3 %", slower)):
        tell("%d pairs, %s" % (arguments.pairs, name), [verdict(a, b) for a, b in zip(first, other)])
        if groups:
            tell("%d groups of %d and %d, %s" % (len(groups), GROUP, GROUP, name),
                 [verdict(*first[i:i + GROUP], "--", *other[i:i + GROUP]) for i in groups])


if __name__ == "__main__":
    main()
