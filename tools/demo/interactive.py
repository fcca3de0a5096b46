# SPDX-License-Identifier: MIT
"""Times the levels of one op, which is chosen by keys: bench kernels proves each level at the shape, and then times it.

In a terminal the arrow keys move and Enter chooses, q leaves. Where stdin is no terminal, each line is the number of a choice, or
for a shape its text, and the end of the input leaves."""
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import termios
import tty

from bad_input import BadInput, printable
from lab import ROOT

ALL = "all levels"
FEWEST_COLUMNS = 4  # of the longest bar
ESCAPE_SECONDS = 0.1  # in which the rest of an arrow's sequence comes; the key Escape has no rest
UP, DOWN, ENTER, LEAVE = ("\x1b[A", "\x1bOA", "k"), ("\x1b[B", "\x1bOB", "j"), ("\r", "\n"), ("q", "\x03", "\x04", "")


class Left(Exception):
    """The user leaves."""


def bars(rows, columns):
    """Yields a line for each level: its time forward and backward together as a bar, or why it was not timed."""
    times = {}
    for row in rows:
        if "microseconds" not in row:
            times[row["level"]] = row["not_timed"]
        elif not isinstance(times.get(row["level"]), str):
            times[row["level"]] = times.get(row["level"], 0) + row["microseconds"]
    longest = max((time for time in times.values() if not isinstance(time, str)), default=1)
    space = max(FEWEST_COLUMNS, columns - 30)
    for level, time in times.items():
        if isinstance(time, str):
            yield f"{level:13} not timed: {time}"
        else:
            yield f"{level:13} {'#' * max(1, round(space * time / longest))} {time:.1f} us"


class Questions:
    """Asks with the keys of a terminal, or with the lines of a pipe."""

    def __init__(self):
        self.in_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    def choose(self, what, names, free=False):
        """Returns one of the names. With `free` a line may also be a text of its own."""
        if not self.in_terminal:
            return self.by_lines(what, names, free)
        with terminal_of_keys():
            return self.by_keys(what, names)

    def by_lines(self, what, names, free):
        print(f"{what}:")
        for number, name in enumerate(names, 1):
            print(f"  {number} {name}")
        line = sys.stdin.readline()
        if not line:
            raise Left
        answer = line.strip()
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]
        if answer in names or (free and answer and not answer.isdecimal()):
            return answer
        raise BadInput(f"{what} is {printable(answer)!r}, expected a number from 1 to {len(names)}" + (" or the text of a shape" if free else ""))

    def by_keys(self, what, names):
        print(f"{what} (arrow keys, Enter; q leaves):")
        size = shutil.get_terminal_size()
        place, room, columns = 0, min(len(names), max(1, size.lines - 3)), max(1, size.columns - 3)  # a line that is broken would be two
        print("\n" * (room - 1))
        while True:
            first = min(max(0, place - room + 1), len(names) - room) if len(names) > room else 0
            shown = names[first:first + room]
            print(f"\x1b[{room}A", end="")
            for number in range(room):
                print(f"\r\x1b[K{'> ' if first + number == place else '  '}{shown[number][:columns]}")
            sys.stdout.flush()
            key = pressed_key()
            if key in LEAVE:
                raise Left
            if key in ENTER:
                return names[place]
            place = (place + (key in DOWN) - (key in UP)) % len(names)


@contextlib.contextmanager
def terminal_of_keys():
    """Inside, the terminal gives each key at once and does not show it. After it the terminal is as before."""
    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    try:
        tty.setcbreak(number, termios.TCSADRAIN)  # keys that are typed early are kept
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def pressed_key():
    """Returns a key of the terminal: a letter, or the sequence of an arrow."""
    number = sys.stdin.fileno()
    key = last = os.read(number, 1)
    while last and key[:1] == b"\x1b" and len(key) < 3 and select.select([number], [], [], ESCAPE_SECONDS)[0]:
        last = os.read(number, 1)
        key += last
    return key.decode(errors="replace")


def facts(*words):
    """Returns what op_facts knows of all ops, or of one."""
    asked = subprocess.run([f"{ROOT}/bazel-bin/tools/explain/op_facts", *words], capture_output=True, text=True, check=False)
    if asked.returncode:
        raise BadInput(printable(asked.stderr.strip().removeprefix("strata: ")))
    return json.loads(asked.stdout)


def show(op, shape, levels):
    """Proves and times levels, and draws their bars."""
    print(f"\n{op} {shape} in fp32: each level is proved against fp64, and then timed", flush=True)
    with tempfile.TemporaryDirectory(prefix="strata-demo-") as folder:
        path = os.path.join(folder, "rows")
        command = [f"{ROOT}/bazel-bin/tools/bench/kernels/bench_kernels", "--op", op, "--dtype", "fp32", "--shape", shape, "--json", path]
        done = subprocess.run(command + (["--level", *levels] if levels else []), capture_output=True, text=True, check=False)
        if done.returncode not in (0, 5):  # 5: a level disagrees, and is not timed
            raise BadInput(printable(done.stderr.strip().removeprefix("strata: ")))
        with open(path, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
    for line in bars(rows, shutil.get_terminal_size().columns):
        print(printable(line))
    print(flush=True)


def run_interactive():
    """Asks for op, shape and level, and shows the times, until the user leaves."""
    questions = Questions()
    try:
        while True:
            op = questions.choose("op", [each["op"] for each in facts()["ops"]])
            known = facts(op)
            shape = questions.choose("shape", list(dict.fromkeys(each["shape"] for each in known["shapes"])), free=True)
            there = [level["level"] for level in known["levels"] if not level["absent"]]
            level = questions.choose("level", [ALL, *there])
            show(op, shape, [] if level == ALL else [level])
    except (Left, KeyboardInterrupt):
        print()
