# SPDX-License-Identifier: MIT
"""Promises time, memory and throughput of a run from measured times. The launcher starts it:

    promise.py say --facts FILE --times FILE [--json FILE] [--latency MICROSECONDS --bandwidth GB]
    promise.py short --facts FILE --ranks N        prints a line with the keys of each short run that measures what is between ops
    promise.py record --lines FILE --short FILE --steps FILE --times FILE

`--facts` is a file with the line that call_times prints, `--lines` has what call_times --measure appends, `--short` the line that
call_times prints for each short run, and `--steps` their lines of bench step --json, in the same order, once for each turn. `--settings`
is a text with the keys of the configuration on which the time between ops depends, and the ops do not. Exit codes: 0, 3 for files that
cannot be used, 4 for files that cannot be read or written."""
import argparse
import hashlib
import itertools
import json
import os
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the modules that tools share

import output  # noqa: E402
from bad_input import BadInput, Parser, run, stop  # noqa: E402
from machine_file import KINDS, MACHINE, VERSION, MachineFile, checked, key_of, parse  # noqa: E402
from run_cost import Promise  # noqa: E402
from short_runs import rows_of, short_runs  # noqa: E402

WRITTEN = 1 << 26  # bytes of the file whose write is timed
WRITES = 5


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [parse(line, f"{path}:{number}") for number, line in enumerate(file, 1)]


def low_mean_high(values):
    return [min(values), statistics.mean(values), max(values)]


def storage_row(ranks, threads):
    """Seconds a byte of a copy in memory, and of a file in TMPDIR that is written and synced to the disk."""
    block = os.urandom(1 << 20) * (WRITTEN >> 20)
    copies, writes = [], []
    for _ in range(WRITES):
        start = time.perf_counter()
        bytearray(block)
        copies.append((time.perf_counter() - start) / WRITTEN)
        with tempfile.TemporaryFile() as file:
            start = time.perf_counter()
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
            writes.append((time.perf_counter() - start) / WRITTEN)
    return {"kind": "storage", "ranks": ranks, "threads": threads, "copy": low_mean_high(copies), "write": low_mean_high(writes)}


def mean_row(rows):
    """One row of several of the same key: the means of their quantiles. A row without times says why, and wins."""
    without = next((row for row in rows if "not_timed" in row), None)
    if without:
        return without
    times = {name: [statistics.mean(values) for values in zip(*(row[name] for row in rows))] for name in KINDS[rows[0]["kind"]][1] if rows[0][name]}
    return {**rows[0], **times}


def record(options):
    """Adds what was measured. The lines of a configuration begin with its facts."""
    lines = read_lines(options.lines)
    if not lines or any(name not in lines[0] for name in MACHINE):
        raise BadInput(f"{options.lines}: begins without the facts of a run; expected what call_times --measure has written")
    path = options.times or default_path(options.folder, lines[0])
    file, measured = MachineFile(path, lines[0]), {}
    condition = lines[0]["measured_ranks"], lines[0]["measured_threads"]
    for number, line in enumerate(lines, 1):
        if "measured_ranks" in line:
            continue
        line = {"kind": "op" if "op" in line else "feed" if "feed" in line else "collective", "ranks": condition[0], "threads": condition[1], **line}
        measured.setdefault(key_of(checked(line, f"{options.lines}:{number}")), []).append(line)
    for rows in measured.values():
        file.add(mean_row(rows))
    file.add(storage_row(*condition))
    short, steps = (read_lines(path) if os.path.exists(path) else [] for path in (options.short, options.steps))
    rows = rows_of([({**facts, "settings": options.settings}, step) for facts, step in zip(itertools.cycle(short), steps)], file, condition)
    for row in rows:
        file.add(row)
    if not rows:
        print("strata: what is between ops could not be measured by short steps of this configuration", file=sys.stderr)
    file.write()
    print(path)


def default_path(folder, machine):
    """Another machine, LibTorch, build of the kernels or version of the file has another file."""
    names = [*(str(machine[name]) for name in MACHINE), str(VERSION)]
    words = re.sub("[^a-z0-9]+", "-", names[0].lower()).strip("-")[:60]
    return os.path.join(folder, f"{words}-{hashlib.sha256(chr(10).join(names).encode()).hexdigest()[:8]}.jsonl")


def network_of(options):
    if (options.latency is None) != (options.bandwidth is None):
        stop("--latency and --bandwidth tell of one network; expected both or none", 2)
    return None if options.latency is None else (options.latency * 1e-6, options.bandwidth * 1e9)


def positive(text):
    value = float(text)
    if not 1e-6 <= value <= 1e9:
        raise argparse.ArgumentTypeError(f"is {text}, expected a number from 1e-6 to 1e9")
    return value


def say(options):
    facts = {**read_lines(options.facts)[-1], "settings": options.settings}
    times = options.times or default_path(options.folder, facts)
    promise = Promise(facts, MachineFile(times, facts), network_of(options))
    output.say(promise)
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(json.dumps(output.as_json(promise)) + "\n")


def main():
    parser = Parser(prog="validate", description=__doc__)
    parser.add_argument("command", choices=("say", "short", "record"))
    for name in ("facts", "times", "lines", "short", "steps", "json", "folder", "settings"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--latency", type=positive, help="microseconds of a link between hosts")
    parser.add_argument("--bandwidth", type=positive, help="GB/s of a link between hosts")
    options = parser.parse_args()
    if options.command == "short":
        print("\n".join(map(" ".join, short_runs(read_lines(options.facts)[-1], options.ranks))))
    else:
        {"say": say, "record": record}[options.command](options)


if __name__ == "__main__":
    run(main)
