# SPDX-License-Identifier: MIT
"""demo [NAME | all] [--validate] [--keep FOLDER] [--interactive]: shows one idea of Strata by small runs, and checks what they wrote.

Without a name the demos are listed, in an order that teaches. Exit codes: 0 every claim holds or is not shown on this
machine, 1 a claim does not hold, 2 wrong use."""
import argparse
import importlib
import os
import signal
import sys
import tempfile
import time

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the modules that tools share

import findings  # noqa: E402
from bad_input import run  # noqa: E402
from command_group import exit_on_signals  # noqa: E402
import interactive  # noqa: E402
from lab import Lab, Unexpected  # noqa: E402

# In the order of docs/learn.md. Each is a file of this folder: its first line says what it shows, run(lab) runs commands,
# and check(results) yields claims about what they wrote.
DEMOS = ("levels", "fusion", "attention", "formats", "checkpointing", "sharding", "graph", "replay", "restart", "compare", "advice")
MOST_SECONDS = 600  # of one command, all demos together


def demo_of(name):
    return importlib.import_module(name)


def title(name):
    return demo_of(name).__doc__.splitlines()[0]


def list_demos():
    for name in DEMOS:
        print(f"{name:15} {title(name)}")
    print("\ntools/strata demo NAME shows one, and tools/strata demo all --validate checks all of them")


def found_by(name, folder, deadline, show):
    """Runs a demo in the folder and returns its claims. If a command does not end as expected, that is the claim that does not hold."""
    lab = Lab(folder, deadline, show)
    try:
        demo_of(name).run(lab)
        return list(demo_of(name).check(lab))
    except Unexpected as problem:
        return [findings.claim(f"{problem.command} ends as it should", False, problem.expected, problem.came)]
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as problem:
        came = f"{type(problem).__name__}: {problem}"
        return [findings.claim("its commands write what the demo reads", False, "files as the pages describe them", came)]


def summary(found):
    count = {state: sum(claim.state == state for claim in found) for state in (findings.HOLDS, findings.FAILS, findings.NOT_SHOWN)}
    checked = count[findings.HOLDS] + count[findings.FAILS]
    others = f", {count[findings.NOT_SHOWN]} not shown here" if count[findings.NOT_SHOWN] else ""
    return f"{count[findings.HOLDS]} of {checked} claims hold{others}"


def tell(name, found, seconds, brief):
    for claim in found:
        if not brief:
            print(claim)
        elif claim.state == findings.FAILS:
            print(f"{name}: {claim}")
    print(f"{name}: {summary(found)}; {seconds:.1f} s", flush=True)


def run_demos(names, brief, folder):
    """Runs demos one after another and returns all their claims."""
    began, everything = time.monotonic(), []
    show = (lambda line: None) if brief else (lambda line: print(line, flush=True))
    for name in names:
        if not brief:
            print(f"{name}: {demo_of(name).__doc__}\n")
        start = time.monotonic()
        place = os.path.join(folder, name)
        os.makedirs(place)
        if start < began + MOST_SECONDS:
            found = found_by(name, place, began + MOST_SECONDS, show)
        else:
            came = f"{start - began:.0f} s are over"
            found = [findings.claim("it is reached in time", False, f"a start within {MOST_SECONDS} s of the command", came)]
        show("")
        tell(name, found, time.monotonic() - start, brief)
        show(f"Read next: {demo_of(name).READ}\n")
        everything += found
    if len(names) > 1:
        print(f"all: {summary(everything)}; {time.monotonic() - began:.1f} s")
    return everything


def main():
    parser = argparse.ArgumentParser(prog="tools/strata demo", allow_abbrev=False)
    parser.add_argument("name", nargs="?", choices=(*DEMOS, "all"), metavar="NAME", help=", ".join((*DEMOS, "all")))
    parser.add_argument("--validate", action="store_true", help="print one line for each demo, and each claim that does not hold")
    parser.add_argument("--keep", metavar="FOLDER", help="keep what the commands write there, in a folder for each demo")
    parser.add_argument("--interactive", action="store_true", help="choose op, shape and level by keys, and see the times of the levels as bars")
    options = parser.parse_args()
    if options.interactive:
        if options.name or options.validate or options.keep:
            parser.error("--interactive takes no other words")
        interrupt = signal.getsignal(signal.SIGINT)
        exit_on_signals()  # so that the terminal is as before
        signal.signal(signal.SIGINT, interrupt)  # Ctrl-C leaves with 0, as q does
        interactive.run_interactive()
        return 0
    if options.name is None:
        if options.validate or options.keep:
            parser.error("which demo? tools/strata demo all --validate")
        list_demos()
        return 0
    exit_on_signals()  # so that commands are asked to stop and the temporary folder is removed
    if options.keep and os.path.exists(options.keep):
        parser.error(f"--keep {options.keep} is there already, expected a folder that is not")
    names = DEMOS if options.name == "all" else (options.name,)
    with tempfile.TemporaryDirectory(prefix="strata-demo-") as temporary:
        found = run_demos(names, options.validate, os.path.abspath(options.keep) if options.keep else temporary)
    return 1 if any(claim.state == findings.FAILS for claim in found) else 0


if __name__ == "__main__":
    run(lambda: sys.exit(main()))
