# SPDX-License-Identifier: MIT
"""Runs the commands of claims and reads the rows that they print."""
import os
import re
import shlex
import subprocess
import sys
import tempfile

from bad_input import printable
from checked_values import object_of
from command_group import outputs_of

PROVED, NOT_ALL_PROVED = 0, 5  # exit codes; a level that is not proved has a row without a time
MEMORY = re.compile(r"^  (\S.*?) +([0-9,]+) +[0-9.]+ MiB$", re.MULTILINE)  # a line of the table of validate
GRACE = 20  # seconds between the signal that asks a command to end and the one that ends it


class Failed(Exception):
    """A command or its rows cannot be used, so nothing is known of the claim."""


def rows_in(text):
    """Returns the lines of JSON. Programs also print messages."""
    return list(filter(None, map(object_of, text.splitlines())))


def memory_in(text):
    """Returns one row with the bytes of each line of validate's table."""
    found = {name: int(count.replace(",", "")) for name, count in MEMORY.findall(text)}
    return [found] if found else []


def output_of(words, root, seconds):
    try:
        code, out, messages = outputs_of(words, GRACE, seconds, cwd=root)
    except OSError as error:
        raise Failed(f"{words[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"it took more than {seconds:g} s") from error
    if code not in (PROVED, NOT_ALL_PROVED):
        last = next((line for line in reversed(messages.splitlines()) if line.strip()), "it said nothing")
        raise Failed(f"exit code {code}: {printable(last.strip())[:200]}")
    return out


def rows_of(command, root, seconds):
    """Returns the rows of a command, which is run in the folder `root`. Raises Failed if it fails or prints none."""
    words = shlex.split(command)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "rows")
        if words[0] == "python3":
            words[:1] = [sys.executable, "-B"]  # files of bytecode would count as changed sources
        elif words[1] == "bench":
            words += ["--json", file]
        text = output_of(words, root, seconds)
        if os.path.exists(file):
            with open(file, encoding="utf-8", errors="replace") as lines:
                text = lines.read()
    rows = memory_in(text) if words[1] == "validate" else rows_in(text)
    if not rows:
        raise Failed("it printed no row")
    return rows
