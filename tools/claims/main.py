# SPDX-License-Identifier: MIT
"""claims [check|page]: lists the claims of Strata, measures them, or makes their page.

Exit codes of check: 0 no claim is refused or undecided, 1 a claim is refused, 2 wrong use, 3 a damaged claims.yaml, 8 undecided,
70 a command failed."""
import argparse
import datetime
import os
import re
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(FOLDER))
sys.path.insert(1, os.path.dirname(FOLDER))  # of the modules that tools share

import claims_file  # noqa: E402
import page  # noqa: E402
import values  # noqa: E402
from bad_input import Parser, run, stop  # noqa: E402
from command_group import exit_on_signals  # noqa: E402
from gpus import gpus_here  # noqa: E402
from measure import Failed, rows_of  # noqa: E402
from whole_file import replace_file  # noqa: E402

FILE, PAGE = os.path.join(FOLDER, "claims.yaml"), os.path.join(ROOT, "docs", "claims.md")
NOT_RUN, ERROR = "not run here", "error"
MOST_SECONDS = 86400  # of one command: a day
EXIT_CODES = {values.REFUSED: 1, ERROR: 70, values.UNDECIDED: 8}  # the first of them that a claim has counts
ROW = "| {:<26} | {:<32} | {:<12} | {:<28} | {:<12} |{}"


def processor():
    """Returns the name of the processor and how many cores this process may use."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    except OSError:
        name = None
    cores = len(os.sched_getaffinity(0))
    return f"{name.group(1).strip() if name else 'a processor without a name'}, {cores} core{'s' if cores > 1 else ''}"


class Measurements:
    """Runs each command once a turn, whatever number of claims have it. A command that failed is not run again."""

    def __init__(self, turns, seconds, peer_seconds):
        self.turns, self.seconds, self.peer_seconds, self.rows, self.failures = turns, seconds, peer_seconds, {}, {}

    def rows_of_command(self, command, turn, seconds):
        if command in self.failures:
            raise Failed(self.failures[command])
        if (command, turn) not in self.rows:
            print(f"strata: turn {turn + 1} of {self.turns}: {command}", file=sys.stderr, flush=True)
            try:
                self.rows[command, turn] = rows_of(command, ROOT, seconds)
            except Failed as failure:
                self.failures[command] = f"{command}: {failure}"
                raise Failed(self.failures[command]) from failure
        return self.rows[command, turn]

    def rows_of_turn(self, claim, turn):
        """Returns the rows of each command by its name, and why one that only the peer needs failed, if it did."""
        needed, rows, failed = {claim[side]["rows"] for side in ("baseline", "ours")}, {}, None
        for name, command in claim["commands"].items():
            try:
                rows[name] = self.rows_of_command(command, turn, self.seconds if name in needed else self.peer_seconds)
            except Failed as failure:
                if name in needed:
                    raise
                failed = failure
        return rows, failed

    def measure(self, claim):
        """Returns `measured` of a claim."""
        ours, peers, sets, failed, machine, here = [], [], [], None, "", processor()
        without = {}  # levels of the peer that were not timed in a turn
        for turn in range(self.turns):
            rows, why = self.rows_of_turn(claim, turn)
            ours.append(values.ratio(claim["baseline"], claim["ours"], claim["sum"], rows, claim["unit"]))
            sets += filter(None, (values.sets_of(claim[side], rows) for side in ("baseline", "ours")))
            if "peer" in claim:
                failed = failed or why
                try:
                    if not failed:
                        peers.append(peer_ratio(claim["peer"], rows))
                        without |= values.untimed(claim["peer"]["theirs"], rows)
                except Failed as failure:
                    failed = failure
            machine = values.machine_of(rows, here)
        if not claim["gpus"] and machine in here:
            machine = here
        beside = {"peer_failed": claims_file.plain(str(failed))[:300]} if failed else {"peer": values.median_of_turns(peers).value} if peers else {}
        if "peer" in beside and without:
            beside["peer_without"] = claims_file.plain("; ".join(f"{level}: {why}" for level, why in without.items()))[:300]
        inputs = {"sets": min(sets)} if sets else {}
        return {**values.median_of_turns(ours)._asdict(), **beside, **inputs, "turns": self.turns, "date": datetime.date.today(), "machine": machine}


def peer_ratio(peer, rows):
    return values.ratio(peer["theirs"], peer["ours"], peer["sum"], rows, claims_file.TIMES)


def result_of(claim, measurements, gpus):
    """Returns the verdict, what was measured, and what went wrong."""
    if claim["gpus"] > gpus:
        return NOT_RUN, None, f" needs {page.needs(claim)}, here are {gpus}"
    try:
        measured = measurements.measure(claim)
    except Failed as failure:
        return ERROR, None, f" {failure}"
    return values.verdict(page.estimate_of(measured), claim["least"]), measured, ""


def record(tree, claim, found, measured):
    """Writes what was measured into the file and the page. A claim that is refused is no claim any more."""
    if found == values.REFUSED:
        tree["claims"].remove(claim)
        tree["refused"] = [each for each in tree["refused"] if each["name"] != claim["name"]] + [claim]
    claim["measured"] = claims_file.with_measured(claim, measured)
    replace_file(FILE, claims_file.text_of(tree))
    replace_file(PAGE, page.page(tree))


def before(claim, measured):
    """Returns words about what the same machine measured before."""
    return "".join(f" was {page.estimate_text(page.estimate_of(each), claim['unit'])} here on {each['date'].isoformat()}"
                   for each in claims_file.measurements(claim) if each["machine"] == measured["machine"])  # fmt: skip


def selected(tree, names):
    """Returns the claims with these names, in this order, or all."""
    known = {claim["name"]: claim for claim in tree["claims"]}
    for name in names:
        if name not in known:
            stop(f"there is no claim {name:.80}; there are {', '.join(known) or 'none'}", 2)
    return [known[name] for name in dict.fromkeys(names or known)]


def check(tree, options):
    claims, gpus, seen = selected(tree, options.names), gpus_here(), []
    measurements = Measurements(options.turns, options.limit, options.peer_limit)
    print(ROW.format("claim", "measured", "must hold", "beside", "verdict", ""))
    print(ROW.format("---", "---", "---", "---", "---", ""))
    for claim in claims:
        found, measured, why = result_of(claim, measurements, gpus)
        seen.append(found)
        words = page.estimate_text(page.estimate_of(measured), claim["unit"]) if measured else "-"
        beside = page.peer_text(claim, measured or {})
        why += before(claim, measured) if measured else ""
        print(ROW.format(claim["name"], words, page.amount(claim["least"], claim["unit"]), beside, found, why), flush=True)
        if measured and options.update:
            record(tree, claim, found, measured)
            if found == values.REFUSED:
                print(f"strata: the claim {claim['name']} is deleted, because it does not hold here", flush=True)
    kinds = (values.HOLDS, values.REFUSED, values.UNDECIDED, ERROR, NOT_RUN)
    print("\n" + ", ".join(f"{seen.count(kind)} {kind}" for kind in kinds if kind in seen))
    return next((code for kind, code in EXIT_CODES.items() if kind in seen), 0)


def show(tree, _):
    print(ROW.format("claim", "measured", "must hold", "beside", "needs", ""))
    print(ROW.format("---", "---", "---", "---", "---", ""))
    for claim in tree["claims"]:
        for measured in claims_file.measurements(claim) or [{}]:
            words = page.estimate_text(page.estimate_of(measured), claim["unit"]) if measured else claims_file.NOT_YET
            least, on = page.amount(claim["least"], claim["unit"]), f" {measured['machine']}" if measured else ""
            print(ROW.format(claim["name"], words, least, page.peer_text(claim, measured), page.needs(claim), on))
    if tree["refused"]:
        print(f"\nrefused: {', '.join(claim['name'] for claim in tree['refused'])}")
    return 0


def make_page(tree, _):
    replace_file(PAGE, page.page(tree))
    print(f"strata: {os.path.relpath(PAGE)} is made from {os.path.relpath(FILE)}")
    return 0


def turns(text):
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 100:
        raise argparse.ArgumentTypeError(f"is {text}, expected a number from 1 to 100")
    return int(text)


def seconds(text):
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"is {text}, expected seconds above 0, and {MOST_SECONDS} at most")
    return number


def main():
    parser = Parser(prog="claims", description=__doc__)
    parser.set_defaults(command=show)
    commands = parser.add_subparsers(metavar="check|page")
    check_parser = commands.add_parser("check", help="measures the claims that this machine can run")
    check_parser.set_defaults(command=check)
    check_parser.add_argument("names", nargs="*", metavar="NAME", help="only these claims")
    check_parser.add_argument("--turns", type=turns, default=5, help="how often each command runs (default 5)")
    check_parser.add_argument("--limit", type=seconds, default=600, metavar="SECONDS", help="of one command (default 600)")
    check_parser.add_argument("--peer-limit", type=seconds, default=400, metavar="SECONDS", help="of one that only a peer needs (default 400)")
    check_parser.add_argument("--update", action="store_true", help="write what was measured into claims.yaml and its page, and delete what is refused")
    commands.add_parser("page", help="makes docs/claims.md from claims.yaml").set_defaults(command=make_page)
    options = parser.parse_args()
    exit_on_signals()
    sys.exit(options.command(claims_file.read(FILE), options))


if __name__ == "__main__":
    run(main)
