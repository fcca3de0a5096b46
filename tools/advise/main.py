# SPDX-License-Identifier: MIT
"""advise CONFIG: what could be changed in a configuration so that its training gets faster, or fits.

It reads the profile of a run, or trains a few steps to take one, and ranks advice by the milliseconds that each step is
predicted to become shorter. With --apply it tries the advice by short runs and keeps what wins."""
import argparse
import os
import shlex
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), name) for name in ("", "report")]

import advice  # noqa: E402
import rules  # noqa: E402
import rules_of_steps  # noqa: E402
import trials  # noqa: E402
from bad_input import BadInput, Parser, printable, run, stop  # noqa: E402
from command_group import exit_on_signals  # noqa: E402
from evidence import Evidence  # noqa: E402
from measure import Measure  # noqa: E402
from run_folder import Run  # noqa: E402

SAME = ("model.type", "model.layers", "model.width", "model.sequence", "model.vocabulary", "batch", "micro_batch", "run.ranks",
        "run.threads", "kernels.default", "precision.compute", "sharding.strategy")  # of a run and the configuration it is said to be of


def say(words):
    print(printable(f"strata: {words}"), file=sys.stderr)


def show(lines):
    for line in lines:
        print(printable(line))


def evidence_of(folder, described, config):
    found = Run(folder)
    for key in SAME:
        was, expected = found.configuration.get(key, ("unknown", ""))[0], described.configuration.get(key, "unknown")
        if was.strip('"') != expected.strip('"'):
            raise BadInput(f"{folder}: {key} was {was}, expected {expected} as in {config}; give the same keys, or leave out --run")
    # The advice is on CONFIG, whose evaluations, saves and profile may be others than in the run.
    evidence = Evidence(found, described.configuration)
    if not evidence.ops:
        say(f"{folder} has no profile, so that there is no advice on its ops: train it with profile.steps=20-24, or leave out --run")
    return evidence


def apply(found, measure, options):
    tried, kept = trials.try_advice(found, measure, options.turns, say)
    show(trials.lines(tried))
    if not kept:
        print("no advice won, so that nothing is written")
        return
    with open(options.output, "w", encoding="utf-8") as file:
        file.writelines(override + "\n" for override in kept)
    print(f"{options.output} has what won: tools/strata train {shlex.join((options.config, *options.overrides, *kept))}")


def main():
    parser = Parser(prog="advise", description=__doc__)
    parser.add_argument("strata", help=argparse.SUPPRESS)
    parser.add_argument("config", metavar="CONFIG")
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*")
    parser.add_argument("--run", metavar="RUN", help="folder of a run of this configuration; otherwise a few steps are trained")
    parser.add_argument("--apply", action="store_true", help="try the advice by short runs, and keep what wins")
    parser.add_argument("--turns", type=int, default=3, metavar="N", help="runs of each configuration in a trial (default 3)")
    parser.add_argument("--output", default="", metavar="FILE", help="file for the overrides that won (default advice-CONFIG.txt)")
    options = parser.parse_intermixed_args()
    options.output = options.output or f"advice-{os.path.splitext(os.path.basename(options.config))[0]}.txt"
    if not 3 <= options.turns <= 100:
        parser.error(f"--turns is {options.turns}, expected 3 to 100: with fewer, chance alone often wins")
    exit_on_signals()  # that ends the running command, and removes the folder
    with tempfile.TemporaryDirectory() as folder:
        measure = Measure(options.strata, options.config, options.overrides, folder, say)
        described = measure.describe()
        if described is None:
            stop(measure.last_words, measure.last_code)
        too_large = rules_of_steps.memory(None, measure)
        if too_large:
            print("The configuration does not fit, so that no step was measured")
            show(advice.lines([too_large], None))
            return
        if options.run:
            evidence = evidence_of(options.run, described, options.config)
        else:
            say("training a few steps to see where their time goes")
            evidence = measure.take_run()
        found = advice.ranked(rules.advices(evidence, measure))
        show([f"A step is {evidence.step:.2f} ms on {evidence.device or 'a device that no profile names'}; pieces of advice: {len(found)}"])
        show(advice.lines(found, evidence.step))
        if options.apply:
            apply(found, measure, options)


if __name__ == "__main__":
    run(main)
