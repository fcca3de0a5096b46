# SPDX-License-Identifier: MIT
"""The file of times that one machine was measured to take: lines of JSON, the first of which names the machine.

A time is a list of three numbers of seconds: the 10 % quantile of the measurements, their mean, and the 90 % quantile. A
row has the number of ranks that measured at the same time, and the threads of each: ranks share caches, memory and cores."""
import json
import os

from bad_input import BadInput
from checked_values import is_finite
from whole_file import replace_file

VERSION = 4
LARGEST_FILE = 1 << 26  # bytes
LONGEST = 1e7  # seconds of one measurement
MACHINE = ("device", "torch", "kernels")  # on which times depend
OP = ("op", "shape", "level", "dtype", "input_gradient")
TEXTS = {"op", "shape", "level", "dtype", "operation", "not_timed", "ops", "exchange", "feed", "pass"}
MAY_BE_NULL = {("op", "backward"), ("outside", "exposed"), ("outside", "sent"), ("outside", "watts")}  # an op without a backward; a rank without others; a CPU
COUNTS = {"ranks": 1, "threads": 1, "bytes": 1, "layers": 1, "micro_batches": 1}  # the least value
# The keys that name a row of each kind, and its times. Times of `outside` are differences, so they may be below 0; `watts` are of all GPUs.
KINDS = {
    "op": (OP, ("forward", "backward")),
    "collective": (("operation", "bytes"), ("seconds",)),
    "outside": (("ops", "exchange", "layers", "micro_batches"), ("forward", "backward", "optimizer", "data", "exposed", "sent", "watts")),
    "storage": ((), ("write", "copy")),
    "feed": (("feed", "pass", "micro_batches"), ("seconds",)),
}


def refuse_repeated_keys(pairs):
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a key stands twice")
    return names


def parse(line, where):
    def refuse_word(word):
        raise ValueError(f"{word} is no number")

    try:
        row = json.loads(line, object_pairs_hook=refuse_repeated_keys, parse_constant=refuse_word)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{where}: expected a line of JSON that tools/strata measure has written; {error}") from error
    if not isinstance(row, dict):
        raise BadInput(f"{where}: expected an object of JSON, not {line.strip()[:40]}")
    return row


def checked(row, where):
    """Refuses a row that measure does not write, before anything is computed from it."""
    kind = row.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadInput(f"{where}: kind is {str(kind)[:40]}, expected one of {', '.join(KINDS)}")
    names, times = KINDS[kind]
    not_timed = kind == "op" and "not_timed" in row
    for name in ("ranks", "threads", *names, *(("not_timed",) if not_timed else ())):
        value = row.get(name)
        least = 2 if (kind, name) == ("collective", "ranks") else COUNTS.get(name)
        if name in COUNTS:
            right = isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 50
        else:
            right = isinstance(value, str if name in TEXTS else bool)
        if not right:
            expected = f"a whole number from {least} on" if name in COUNTS else "a text" if name in TEXTS else "true or false"
            raise BadInput(f"{where}: {name} is {str(value)[:40]}, expected {expected}")
    for name in () if not_timed else times:
        value = row.get(name)
        if value is None and (kind, name) in MAY_BE_NULL:
            continue
        right = isinstance(value, list) and len(value) == 3 and all(is_finite(one, LONGEST) for one in value) and value[0] <= value[1] <= value[2]
        if not right or (kind != "outside" and value[0] < 0):
            raise BadInput(f"{where}: {name} is {str(value)[:40]}, expected three numbers that do not fall")
    return row


def key_of(row):
    return (row["kind"], row["ranks"], row["threads"], *(row[name] for name in KINDS[row["kind"]][0]))


class MachineFile:
    """`rows` is {key_of(row): row}. A file that is not there has no rows. The file of another machine is refused."""

    def __init__(self, path, machine):
        self.path, self.machine, self.rows = path, {name: machine[name] for name in MACHINE}, {}
        if not os.path.exists(path):
            return
        if not os.path.isfile(path):  # a pipe would never end
            raise BadInput(f"{path}: is no file; expected the file of tools/strata measure")
        if os.path.getsize(path) > LARGEST_FILE:
            raise BadInput(f"{path}: has more than {LARGEST_FILE >> 20} MiB; expected the file of tools/strata measure")
        with open(path, encoding="utf-8") as file:
            lines = list(enumerate(file, 1))
        if not lines:
            raise BadInput(f"{path}: is empty; remove it and run tools/strata measure again")
        self.require_this_machine(parse(lines[0][1], f"{path}:1"))
        for number, line in lines[1:]:
            self.add(checked(parse(line, f"{path}:{number}"), f"{path}:{number}"))

    def require_this_machine(self, head):
        if head.get("version") != VERSION:
            raise BadInput(f"{self.path}: has version {str(head.get('version'))[:40]}, expected {VERSION}; "
                           "run tools/strata measure with another --times")
        for name in MACHINE:
            if head.get(name) != self.machine[name]:
                raise BadInput(f"{self.path}: was measured with {name} {str(head.get(name))[:80]}, this is {self.machine[name]}; "
                               "run tools/strata measure here with another --times")

    def add(self, row):
        self.rows[key_of(row)] = row

    def write(self):
        """A promise that reads the file in the meantime finds the old rows or the new ones."""
        os.makedirs(os.path.dirname(os.path.abspath(self.path)), exist_ok=True)
        lines = [{"version": VERSION, **self.machine}, *self.rows.values()]
        replace_file(self.path, "".join(json.dumps(line) + "\n" for line in lines))

    def rows_of_kind(self, kind, ranks, threads):
        return [row for row in self.rows.values() if (row["kind"], row["ranks"], row["threads"]) == (kind, ranks, threads)]

    def conditions(self):
        """The (ranks, threads) at which ops were measured, those with most ranks last."""
        return sorted({(row["ranks"], row["threads"]) for row in self.rows.values() if row["kind"] == "op"})
