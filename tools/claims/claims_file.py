# SPDX-License-Identifier: MIT
"""Reads and writes claims.yaml, and refuses what is not a claim.

A claim compares two amounts that its commands measure, such as the times of plain PyTorch (baseline) and of Strata (ours)."""
import datetime
import re
import shlex

import yaml

from bad_input import BadInput
from checked_values import is_finite
from strict_yaml import read_yaml

NOT_YET = "not yet"
TIMES, PERCENT = "times", "percent less"  # baseline / ours, and 100 (1 - ours / baseline)
KEYS = ("name", "claim", "gpus", "commands", "unit", "least", "sum", "baseline", "ours", "peer", "measured")
PEER = ("name", "sum", "theirs", "ours")
MEASURED = ("value", "low", "high", "peer", "peer_without", "peer_failed", "sets", "turns", "date", "machine")
OPTIONAL = ("peer", "peer_without", "peer_failed", "sets")
PROGRAMS = re.compile(r"tools/strata (bench (kernels|modules|step|levels|generate) |validate )|python3 tools/bench/(compiled/)?[a-z_]+\.py ")
MOST_BYTES, MOST_LETTERS = 1 << 20, 600
MOST_MACHINES = 100
LARGEST = 1e15  # of a number
HEAD = """# What Strata claims: `tools/strata claims check --update` measures it and writes this file and docs/claims.md.
# The keys are explained in docs/claims.md, which `tools/strata claims page` makes from this file.
"""


class Lines(dict):
    """A mapping that is written with a line for each key."""


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data):
        return True


Dumper.add_representer(Lines, lambda dumper, lines: dumper.represent_mapping("tag:yaml.org,2002:map", lines, flow_style=False))


class Refusal(Exception):
    """What is wrong with a part of the file."""


def require(condition, words):
    if not condition:
        raise Refusal(words)


def is_plain(text):
    """Texts stand in a table of the page and on a terminal, so they have no line end, no mark of a table or of HTML, and no control character."""
    return text.isprintable() and not set(text) & set("|<>`")


def plain(text):
    """Returns a text in which ? stands for what is_plain() forbids."""
    return "".join(letter if is_plain(letter) else "?" for letter in text)


def check_text(text, what):
    require(isinstance(text, str) and 0 < len(text) <= MOST_LETTERS and is_plain(text),
            f"{what} is {text!r:.80}, expected a text of one line without | < > and `")


def check_keys(tree, keys, what):
    require(isinstance(tree, dict), f"{what} is {tree!r:.80}, expected the keys {', '.join(keys)}")
    unknown = next((key for key in tree if key not in keys), None)
    require(unknown is None, f"{what} has the key {unknown!r:.80}, expected {', '.join(keys)}")
    missing = next((key for key in keys if key not in tree and key not in OPTIONAL), None)
    require(missing is None, f"{what} has no key {missing}")


def check_commands(commands):
    require(isinstance(commands, dict) and commands, "commands are missing, expected a name and a command each")
    for name, command in commands.items():
        require(isinstance(name, str) and re.fullmatch("[a-z_]+", name), f"a command is called {name!r:.80}, expected small letters and _")
        require(isinstance(command, str) and len(command) <= MOST_LETTERS and command.isprintable() and PROGRAMS.match(command + " "),
                f"command {name} is {command!r:.80}, expected tools/strata bench, tools/strata validate or a Python program of tools/bench")
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise Refusal(f"command {name} has a quote that does not end") from error
        require(not any(word.startswith(("--json", "--output")) for word in words), f"command {name} names a file to write")


def check_side(side, names, commands, what):
    """`side` chooses rows of a command: {rows: name of the command, key of a row: value, or list of values}."""
    require(isinstance(side, dict) and isinstance(side.get("rows"), str) and side["rows"] in commands,
            f"{what} has no rows of a command of this claim")
    for key, value in side.items():
        values = value if isinstance(value, list) else [value]
        require(isinstance(key, str) and values and all(isinstance(each, (str, int, bool)) for each in values),
                f"{what} has {key!r:.40}: {value!r:.40}, expected a word or a list of words")
    require(isinstance(names, list) and names and all(isinstance(name, str) for name in names),
            f"sum is {names!r:.80}, expected a list of keys of rows")


def check_measurements(measured):
    require(isinstance(measured, list) and 0 < len(measured) <= MOST_MACHINES,
            f"measured is {measured!r:.80}, expected {NOT_YET}, or a list with what each machine measured, {MOST_MACHINES} at most")
    for each in measured:
        check_measured(each)
    machines = [each["machine"] for each in measured]
    require(len(set(machines)) == len(machines), "measured has one machine twice")


def check_measured(measured):
    check_keys(measured, MEASURED, "measured")
    for key in ("value", "low", "high", "peer"):
        require(is_finite(measured.get(key, 0), LARGEST), f"measured.{key} is {measured.get(key)!r:.80}, expected a number")
    require(measured["low"] <= measured["value"] <= measured["high"], "measured.value is not between low and high")
    require(isinstance(measured["turns"], int) and measured["turns"] > 0, "measured.turns is not a number of turns")
    sets = measured.get("sets", 1)
    require(isinstance(sets, int) and not isinstance(sets, bool) and sets > 0, f"measured.sets is {sets!r:.80}, expected a number of copies of inputs")
    require(isinstance(measured["date"], datetime.date), "measured.date is not a date such as 2026-11-26")
    check_text(measured["machine"], "measured.machine")
    if "peer_without" in measured:
        require("peer" in measured, "measured has peer_without and no peer")
        check_text(measured["peer_without"], "measured.peer_without")
    if "peer_failed" in measured:
        require("peer" not in measured, "measured has both peer and peer_failed")
        check_text(measured["peer_failed"], "measured.peer_failed")


def check_claim(claim):
    check_keys(claim, KEYS, "it")
    require(isinstance(claim["name"], str) and re.fullmatch("[a-z][a-z0-9_]{0,39}", claim["name"]), "its name has other letters than a-z, 0-9 and _")
    check_text(claim["claim"], "claim")
    gpus = claim["gpus"]
    require(isinstance(gpus, int) and not isinstance(gpus, bool) and 0 <= gpus <= 1024, f"gpus is {gpus!r:.80}, expected a number of GPUs, or 0")
    check_commands(claim["commands"])
    require(claim["unit"] in (TIMES, PERCENT), f"unit is {claim['unit']!r:.80}, expected {TIMES} or {PERCENT}")
    require(is_finite(claim["least"], LARGEST) and claim["least"] > 0, f"least is {claim['least']!r:.80}, expected a number above 0")
    for side in ("baseline", "ours"):
        check_side(claim[side], claim["sum"], claim["commands"], side)
    if "peer" in claim:
        check_keys(claim["peer"], PEER, "peer")
        check_text(claim["peer"]["name"], "peer.name")
        for side in ("theirs", "ours"):
            check_side(claim["peer"][side], claim["peer"]["sum"], claim["commands"], "peer." + side)
    if claim["measured"] != NOT_YET:
        check_measurements(claim["measured"])


def check_refused(claim):
    check_claim(claim)
    require(claim["measured"] != NOT_YET, "it was refused and has no measured value")


def measurements(claim):
    """Returns what was measured, one entry for each machine."""
    return [] if claim["measured"] == NOT_YET else claim["measured"]


def with_measured(claim, measured):
    """Returns the measurements of a claim in which `measured` is new for its machine. Measurements of other machines stay."""
    kept = measurements(claim)
    at = next((number for number, each in enumerate(kept) if each["machine"] == measured["machine"]), len(kept))
    return [*kept[:at], measured, *kept[at + 1:]]


def read(path):
    """Returns {"claims": [...], "refused": [...]}, in which every value has been checked."""
    tree = read_yaml(path, MOST_BYTES)
    try:
        check_keys(tree, ("claims", "refused"), "the file")
        for key, check in (("claims", check_claim), ("refused", check_refused)):
            require(isinstance(tree[key], list), f"{key} is no list")
            for number, claim in enumerate(tree[key], 1):
                try:
                    check(claim)
                except Refusal as refusal:
                    raise Refusal(f"entry {number} of {key}: {refusal}") from refusal
        names = [claim["name"] for claim in tree["claims"]]
        require(len(set(names)) == len(names), "two claims have the same name")
    except Refusal as refusal:
        raise BadInput(f"{path}: {refusal}") from refusal
    return tree


def text_of(tree):
    lines = {key: [{**claim, "commands": Lines(claim["commands"])} for claim in claims] for key, claims in tree.items()}
    return HEAD + yaml.dump(lines, Dumper=Dumper, sort_keys=False, width=140, default_flow_style=None)
