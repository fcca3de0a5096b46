# SPDX-License-Identifier: MIT
"""compare A B: what differs between two runs, two files of benchmarks, two plans or two checkpoints, and which is faster.
compare A... -- B...: two groups of runs, such as seeds, with intervals over runs. Options stand before the --.

A and B are folders of runs, files that `bench ... --json` or `plan` has written, or folders of checkpoints. B is compared with A.
Exit codes: 0 equal, faster or better, 1 slower, worse or different, 2 wrong use, 3 files that cannot be used, 4 files that cannot be read,
8 undecided: more measurements are needed."""
import argparse
import os
import sys

TOOLS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[1:1] = [TOOLS, os.path.join(TOOLS, "claims")]  # of the modules that tools share, and of the loader of YAML

import compare_benches  # noqa: E402
import compare_checkpoints  # noqa: E402
import compare_groups  # noqa: E402
import compare_plans  # noqa: E402
import compare_runs  # noqa: E402
import verdict  # noqa: E402
from bad_input import Parser, run, stop  # noqa: E402

LOSS_RESOLUTION = 0.2  # percent
EXPECTED = "expected the folder of a run (it has metrics.jsonl), the folder of a checkpoint (manifest.json), a plan, or a file of `bench ... --json`"
RUN, CHECKPOINT, PLAN, BENCH = "a run", "a checkpoint", "a plan", "a file of a benchmark"
COMPARE = {RUN: compare_runs.compare, CHECKPOINT: compare_checkpoints.compare, PLAN: compare_plans.compare, BENCH: compare_benches.compare}


def kind_of(path):
    if os.path.isfile(os.path.join(path, "metrics.jsonl")):
        return RUN
    if os.path.isfile(os.path.join(path, "manifest.json")):
        return CHECKPOINT
    if os.path.isfile(path):
        return PLAN if is_plan(path) else BENCH
    stop(f"{path} {'is neither a run nor a checkpoint' if os.path.isdir(path) else 'is not there'}; {EXPECTED}", 2)


def is_plan(path):
    """A plan begins with a comment, or has the name of a file of YAML. Benchmarks write JSON."""
    with open(path, "rb") as file:
        return file.read(1) == b"#" or path.endswith((".yaml", ".yml"))


def percent(text):
    value = float(text)
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError(f"is {text}, expected a number above 0 and at most 100")
    return value


def steps(text):
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"is {text}, expected a whole number of steps, 0 or more")
    return int(text)


def compare_two(options):
    kinds = [kind_of(path) for path in (options.first, options.second)]
    if kinds[0] != kinds[1]:
        stop(f"{options.first} is {kinds[0]} and {options.second} is {kinds[1]}; expected two of one kind", 2)
    return COMPARE[kinds[0]](options.first, options.second, options)


def compare_two_groups(first, second, options, parser):
    if not second or any(path.startswith("-") for path in second):
        parser.error("after -- folders of runs were expected, and options before it")
    for path in (*first, *second):
        if kind_of(path) != RUN:
            stop(f"{path} is {kind_of(path)}; with -- two groups of runs were expected", 2)
    real = [os.path.realpath(path) for path in (*first, *second)]
    if len(set(real)) < len(real):
        stop(f"{next(path for path in (*first, *second) if real.count(os.path.realpath(path)) > 1)} was given twice, expected each run once", 2)
    return compare_groups.compare(first, second, options)


def main():
    parser = Parser(prog="compare", description=__doc__)
    words = sys.argv[1:]
    second_group = words[words.index("--") + 1:] if "--" in words else None
    parser.add_argument("first", metavar="A", nargs=None if second_group is None else "+")
    if second_group is None:
        parser.add_argument("second", metavar="B")
    parser.add_argument("--least", type=percent, default=0.5, metavar="PERCENT", help="smaller differences of times count as equal (default 0.5)")
    parser.add_argument("--resolution", type=percent, default=3.0, metavar="PERCENT",
                        help="times are called equal only if differences of so much are excluded (default 3)")
    parser.add_argument("--warm-up", type=steps, default=10, metavar="N", help="steps left out after each start of a run (default 10)")
    parser.add_argument("--only", choices=("losses", "times"), help="of runs: compare nothing else")
    parser.add_argument("--loss-resolution", type=percent, metavar="PERCENT",
                        help="of groups: losses are called equal only if differences of so large a share are excluded (default %g)" % LOSS_RESOLUTION)
    options = parser.parse_args(words if second_group is None else words[:words.index("--")])
    if options.least > options.resolution:
        parser.error(f"--least is {options.least:g}, expected at most --resolution, which is {options.resolution:g}")
    if second_group is None and options.loss_resolution is not None:
        parser.error("--loss-resolution is of groups of runs; expected A... -- B... with it")
    options.loss_resolution = options.loss_resolution or LOSS_RESOLUTION
    found = compare_two(options) if second_group is None else compare_two_groups(options.first, second_group, options, parser)
    print(f"verdict: {found}")
    sys.exit(verdict.EXIT_CODES[found])


if __name__ == "__main__":
    run(main)
