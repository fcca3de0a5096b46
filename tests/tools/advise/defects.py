# SPDX-License-Identifier: MIT
"""Puts defects into configurations, asks for advice, and prints which advice comes first: a proof for machines with CPUs alone.

    python3 -B tests/tools/advise/defects.py tools/strata [--only WORD] [--turns N]

The data of the quick starts must be there. With --turns the first advice is tried by that number of short runs of each side, and the
gain is printed beside the predicted one."""
import argparse
import os
import sys
import tempfile
import typing

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 3, "tools")
sys.path[:0] = [os.path.join(TOOLS, name) for name in ("advise", "report", "")]

import rules  # noqa: E402
from advice import milliseconds_text, ranked  # noqa: E402
from bad_input import BadInput  # noqa: E402
from measure import Measure  # noqa: E402
from trials import merged, try_advice  # noqa: E402

BEST = "kernels={default: best}"


class Defect(typing.NamedTuple):
    config: str  # a key of CONFIGS
    expected: str  # the rule whose advice must come first; empty: there is no defect
    overrides: tuple


# The quick starts without what advice finds in them: fast levels, one micro-batch, rare evaluations.
CONFIGS = {
    "text": ("quickstart", ("run.ranks=1", "micro_batch=16", "evaluation.tokens=8192", BEST)),
    "small text": ("quickstart", ("run.ranks=1", "batch=8", "micro_batch=8", "model.layers=1", "evaluation.tokens=2048", BEST)),
    "wide text": ("quickstart", ("run.ranks=1", "batch=8", "micro_batch=8", "model.layers=1", "model.vocabulary=8192", "evaluation.tokens=8192", BEST)),
    "text, 2 ranks": ("quickstart", ("run.ranks=2", "batch=4", "micro_batch=2", "evaluation.tokens=2048", "sharding.strategy=none", BEST)),
    "vision": ("quickstart_vision", ("run.ranks=1", "run.device=cpu", "micro_batch=128", BEST)),
    "mixer": ("quickstart_mixer", ("run.ranks=1", "run.device=cpu", "batch=32", "micro_batch=32", "model.layers=2", BEST)),
    "graph": ("arxiv_size", ("run.device=cpu", "precision.compute=float32", "data.nodes=8000", "data.edges=60000", "evaluation.every=50", BEST)),
}
TORCHSCRIPT = "kernels={default: torchscript}"
DEFECTS = (
    *(Defect(config, "", ()) for config in CONFIGS),
    Defect("text", "levels", (TORCHSCRIPT,)),
    Defect("text", "recomputation", ("gradient_checkpointing=full",)),
    Defect("small text", "micro-batch", ("micro_batch=1",)),
    Defect("small text", "checkpoints", ("checkpoint.every=1",)),
    Defect("small text", "evaluations", ("evaluation.every=1",)),
    Defect("small text", "profile", ("profile.steps=1-1000",)),
    Defect("wide text", "fused head", ()),  # its plan is edited
    Defect("text, 2 ranks", "replicate", ("sharding.strategy=full",)),
    Defect("vision", "levels", (TORCHSCRIPT,)),
    Defect("vision", "recomputation", ("gradient_checkpointing=full",)),
    Defect("vision", "micro-batch", ("micro_batch=8",)),
    Defect("vision", "compute type", ("precision.compute=float16",)),
    Defect("vision", "evaluations", ("evaluation.every=6",)),
    Defect("mixer", "levels", (TORCHSCRIPT,)),
    Defect("mixer", "recomputation", ("gradient_checkpointing=full",)),
    Defect("mixer", "micro-batch", ("micro_batch=2",)),
    Defect("mixer", "checkpoints", ("checkpoint.every=1",)),
    Defect("graph", "levels", (TORCHSCRIPT,)),
    Defect("graph", "checkpoints", ("checkpoint.every=1",)),
    Defect("graph", "evaluations", ("evaluation.every=1",)),
)


def without_fused_head(measure, folder):
    """Returns an override for a plan that is the measured one, but has output layer and loss apart."""
    plan = measure.plan()
    fused = plan.levels["linear_cross_entropy"]
    with open(plan.path, encoding="utf-8") as file:
        text = file.read().replace(f"  linear_cross_entropy: {fused}\n", f"  cross_entropy: {fused}\n")
    path = os.path.join(folder, "apart.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return f"kernels={{default: best, plan: {path}}}"


def advise(strata, defect, turns):
    """Returns the cells of a row, whether the right advice came first, and the error of its predicted gain, or None. A row without a defect
    is right if it has no advice."""
    name, clean = CONFIGS[defect.config]
    config = os.path.join(os.path.dirname(strata), os.pardir, "configs", name + ".yaml")
    with tempfile.TemporaryDirectory() as folder:
        overrides = merged(clean, defect.overrides)
        if defect.expected == "fused head":
            overrides = merged(clean, (without_fused_head(Measure(strata, config, clean, folder), folder),))
        measure = Measure(strata, config, overrides, folder)
        evidence = measure.take_run()
        found = ranked(rules.advices(evidence, measure))
        measured, error = "", None
        if turns and found and not found[0].changes:
            measured = "a run failed"
            for trial in try_advice(found[:1], measure, turns, lambda words: None)[0]:
                gain = trial.before - trial.after
                measured = f"{gain:.2f} ms of {trial.before:.2f}{'' if trial.kept else ', not kept'}"
                error = found[0].milliseconds / gain - 1 if found[0].milliseconds and trial.kept else None
    all_found = ", ".join(f"{advice.rule} {milliseconds_text(advice.milliseconds)}" for advice in found) or "none"
    first = found[0].rule if found else ""
    return [defect.config, defect.expected or "-", f"{evidence.step:.2f}", all_found, measured], first == defect.expected, error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("strata")
    parser.add_argument("--only", default="", help="only rows whose configuration or expected advice has this word")
    parser.add_argument("--turns", type=int, default=0)
    options = parser.parse_args()
    print("| configuration | defect | ms of a step | advice, predicted | first advice, measured | right |\n| --- | --- | --- | --- | --- | --- |")
    right, count, errors = 0, 0, []
    for defect in DEFECTS:
        if options.only not in f"{defect.config}/{defect.expected or 'none'}":
            continue
        try:
            cells, is_right, error = advise(os.path.abspath(options.strata), defect, options.turns)
        except BadInput as bad:
            error = None
            cells, is_right = [defect.config, defect.expected or "-", "-", f"failed: {bad}", ""], False
        print("| " + " | ".join([*cells, "yes" if is_right else "no"]) + " |", flush=True)
        if defect.expected:
            right, count = right + is_right, count + 1
        if error is not None:
            errors.append(error)
    print(f"\nthe right advice came first for {right} of {count} defects")
    if errors:
        sizes = sorted(abs(error) for error in errors)
        print(f"{len(errors)} predicted gains are {100 * min(errors):+.0f} % to {100 * max(errors):+.0f} % away from the measured ones, half of them "
              f"at most {100 * sizes[(len(sizes) - 1) // 2]:.0f} %")


if __name__ == "__main__":
    main()
