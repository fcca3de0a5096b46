# SPDX-License-Identifier: MIT
"""what to change so that a training gets faster, and what came of it

tools/strata advise reads what a run has measured and ranks what could be changed, with the milliseconds that each step is
predicted to become shorter. This demo trains a model that is evaluated after each step, asks for advice, trains with the
change that comes first, and asks again. Evaluations change no weight, so the losses must have the same bits."""
import re

import findings
from lab import CONFIG, SMALL

READ = "docs/advice.md"
OFTEN = ["evaluation.every=1", "evaluation.tokens=16384"]
LEAST = 0.5  # how much of a step the gain of this defect must be


def run(lab):
    lab.prepare_text()
    lab.train("before", "--ranks", "1", *OFTEN)
    ask(lab, "before", OFTEN)
    changed = [*OFTEN, *first(lab, "before")[1].split()]
    lab.train("after", "--ranks", "1", *changed)
    ask(lab, "after", changed)


def ask(lab, name, keys):
    lab.strata(f"advise-{name}", "advise", CONFIG, *SMALL, "--ranks", "1", *keys, "--run", name)


def count(results, name):
    return int(re.search(r"pieces of advice: (\d+)", results.output(f"advise-{name}")).group(1))


def first(results, name):
    """Returns the rule that comes first, its change of the configuration, its gain, and the step of which it is: milliseconds."""
    found = re.search(r"^1\. ([\w -]+): gain ([\d.]+) ms of ([\d.]+) ms .*\n.*\n   (.*)$", results.output(f"advise-{name}"), re.MULTILINE)
    return found.group(1), found.group(4), float(found.group(2)), float(found.group(3))


def evaluations(results, name):
    return sum("validation_loss" in record for record in results.metrics(name))


def check(results):
    rule, change, gain, step = first(results, "before")
    yield findings.equal("what comes first, and the change", ("evaluations", "evaluation.every=20"), (rule, change))
    yield findings.claim("the predicted gain is most of a step", gain > LEAST * step, f"more than {LEAST * step:.2f} ms", f"{gain:.2f} ms")
    yield findings.equal("evaluations before the change and after it", (20, 1), tuple(evaluations(results, name) for name in ("before", "after")))
    yield findings.equal("losses of all steps before the change and after it, bit for bit", results.steps("before"), results.steps("after"))
    whole = {name: sum(results.steps(name, "milliseconds")) for name in ("before", "after")}
    yield findings.falling("milliseconds of all steps with their evaluations", whole)
    yield findings.equal("pieces of advice after the change", 0, count(results, "after"))
    yield findings.seen(f"{gain:.0f} ms of a step were predicted to be saved, and {(whole['before'] - whole['after']) / 20:.0f} ms were")
