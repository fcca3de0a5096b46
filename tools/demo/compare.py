# SPDX-License-Identifier: MIT
"""two runs compared: the same bits, or the step at which they part

tools/strata compare says what differs between two runs. This demo trains a model twice with the same configuration, once
with another seed, and once with another learning rate. The same configuration gives the same bits. Another seed gives
other weights, so the losses part at step 1. A learning rate acts after the first loss, so they part at step 2."""
import re

import findings

READ = "docs/comparing.md"
RUNS = {"first": [], "again": [], "seed": ["run.seed=2"], "rate": ["optimizer.learning_rate=1e-3"]}
# The findings that compare must have: exit code, step at which the losses part, key that differs.
FOUND = {"again": (0, None, None), "seed": (1, 1, "run.seed"), "rate": (1, 2, "optimizer.learning_rate")}


def run(lab):
    lab.prepare_text()
    for name, keys in RUNS.items():
        lab.train(name, "--ranks", "1", *keys)
    for name, (code, _, _) in FOUND.items():
        lab.strata(f"compare-{name}", "compare", "first", name, "--only", "losses", expect=(0, 1))


def said(results, name):
    """Returns what compare found: exit code, step at which the losses part, first key that differs."""
    output = results.output(f"compare-{name}")
    step = re.search(r"^losses: part at step (\d+)", output, re.MULTILINE)
    key = re.search(r"^   ([\w.]+): ", output, re.MULTILINE)
    return results.code(f"compare-{name}"), int(step.group(1)) if step else None, key.group(1) if key else None


def parts_at(results, name):
    """Returns the first step with another loss, by the two metrics.jsonl, or None."""
    pairs = zip(results.steps("first"), results.steps(name))
    return next((step for step, (a, b) in enumerate(pairs, 1) if a != b), None)


def check(results):
    for name, expected in FOUND.items():
        what = " ".join(RUNS[name]) or "the same configuration"
        yield findings.equal(f"{what}: exit code of compare, step at which losses part, key that differs", expected, said(results, name))
        yield findings.equal(f"{what}: the step at which losses part, by metrics.jsonl", expected[1], parts_at(results, name))
    yield findings.equal("the same configuration: SHA-256 of the last weights", results.weights("first")[20], results.weights("again")[20])
