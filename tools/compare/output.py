# SPDX-License-Identifier: MIT
"""Prints what a comparison found. Names and values are from files of others, so no control character and no line end is printed."""
from bad_input import printable

MOST_LINES = 40  # of a list


def say(line):
    shown = printable(line.replace("\n", "?"))
    print(shown.encode(errors="replace").decode())  # JSON can name characters that no text has


def say_list(title, lines):
    say(f"{title}:")
    for line in lines[:MOST_LINES]:
        say(f"   {line}")
    if len(lines) > MOST_LINES:
        say(f"   and {len(lines) - MOST_LINES} more")
