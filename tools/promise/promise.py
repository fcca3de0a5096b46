# SPDX-License-Identifier: MIT
"""Promises time, memory and throughput of a run from measured times. The launcher starts it:

    promise.py say --facts FILE --times FILE [--json FILE] [--latency MICROSECONDS --bandwidth GB]
    promise.py short --facts FILE --ranks N        prints the keys of the short run that measures what is between ops
    promise.py record --lines FILE --steps FILE --times FILE

`--facts` is a file with the line that call_times prints, `--lines` has what call_times --measure appends, and `--steps` lines of
bench step --json. Exit codes: 0, 3 for files that cannot be used, 4 for files that cannot be read or written."""
import argparse
import hashlib
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
from checked_values import is_finite  # noqa: E402
from machine_file import KINDS, MACHINE, MachineFile, checked, key_of, parse  # noqa: E402
from run_cost import Promise, Prices, calls_in, exchange_of, op_parts, ops_hash  # noqa: E402
from links import Links  # noqa: E402

SHORT_LAYERS, SHORT_MICRO_BATCHES = 3, 2  # the first, the last and one between them
WRITTEN = 1 << 26  # bytes of the file whose write is timed
WRITES = 5


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [parse(line, f"{path}:{number}") for number, line in enumerate(file, 1)]


def short_keys(facts, ranks):
    """The keys of a run of the same ops with few layers and the ranks of this machine."""
    keys = [f"run.ranks={ranks}"]
    if facts["layers"] > SHORT_LAYERS:
        keys.append(f"model.layers={SHORT_LAYERS}")
    if facts["samples_per_round"] > 1 or facts["micro_batches"] > 1 or facts["ranks"] != ranks:
        batch = facts["samples_per_round"] * ranks // facts["ranks"] * min(SHORT_MICRO_BATCHES, facts["micro_batches"])
        keys.append(f"batch={max(batch, 1)}")
    return keys


def three(values):
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
    return {"kind": "storage", "ranks": ranks, "threads": threads, "copy": three(copies), "write": three(writes)}


def spans_of(steps):
    """Seconds of the phases of a step: shares of profiled steps, of the median of steps without a profiler. None if the profile could
    not tell the phases apart."""
    whole = steps.get("breakdown")
    if not isinstance(whole, dict) or not whole.get("step") or not steps.get("milliseconds") or "difference" in whole:
        return None
    return {name: 1e-3 * steps["milliseconds"] * value / whole["step"] for name, value in whole.items() if is_finite(value)}


def outside_row(facts, steps, file, condition):
    """What real steps took besides their ops, per call of an op. Steps without measured ops, or without a profile, give none."""
    parts, missing = op_parts(facts, Prices(file, *condition))
    measured = [spans for spans in map(spans_of, steps) if spans]
    if missing or not measured:
        return None
    span = {name: statistics.mean(spans[name] for spans in measured) for name in measured[0]}
    calls = calls_in(facts, "forward") * facts["micro_batches"]
    ranks, exposed = condition[0], None
    if ranks > 1:
        links = Links(file.of_kind("collective", *condition), ranks)
        sent = [call for call in facts["collectives"] if call["part"] != "evaluation" and links.has(call["operation"])]
        times = sum(call["calls"] * links.seconds(call["operation"], call["bytes"], call["ranks"])[1] for call in sent)
        exposed = [span["exposed_communication"] / times] * 3 if times else None
    # A GPU is idle while it waits for the next kernel, so this time grows with the number of ops. A CPU never counts as idle.
    passes = span["forward"] + span["backward"]
    longer = 1 + span["idle"] / passes if passes else 1
    forward = longer * span["forward"] - parts["forward ops"][1]
    backward = longer * span["backward"] - parts["backward ops"][1] - parts["recomputation"][1]
    return {"kind": "outside", "ranks": ranks, "threads": condition[1], "ops": ops_hash(facts), "exchange": exchange_of(facts),
            "forward": [forward / calls] * 3, "backward": [backward / calls] * 3,
            "optimizer": [(span["optimizer"] - parts["optimizer"][1]) / max(calls_in(facts, "optimizer"), 1)] * 3,
            "data": [span["other"]] * 3, "exposed": exposed}  # fmt: skip


def mean_row(rows):
    """One row of several of the same key: the means of their quantiles. A row without times says why, and wins."""
    without = next((row for row in rows if "not_timed" in row), None)
    if without:
        return without
    times = {name: [statistics.mean(values) for values in zip(*(row[name] for row in rows))] for name in KINDS[rows[0]["kind"]][1] if rows[0][name]}
    return {**rows[0], **times}


def record(options):
    """Adds what was measured. The lines of a configuration begin with its facts; the last ones are those of the short run."""
    lines = read_lines(options.lines)
    if not lines or any(name not in lines[0] for name in MACHINE):
        raise BadInput(f"{options.lines}: begins without the facts of a run; expected what call_times --measure has written")
    path = options.times or default_path(options.folder, lines[0])
    file, facts, measured = MachineFile(path, lines[0]), lines[0], {}
    condition = facts["measured_ranks"], facts["measured_threads"]
    for number, line in enumerate(lines, 1):
        if "measured_ranks" in line:
            facts = line
            continue
        line = {"kind": "op" if "op" in line else "collective", "ranks": condition[0], "threads": condition[1], **line}
        measured.setdefault(key_of(checked(line, f"{options.lines}:{number}")), []).append(line)
    for rows in measured.values():
        file.add(mean_row(rows))
    file.add(storage_row(*condition))
    steps = read_lines(options.steps) if os.path.exists(options.steps) else []
    row = outside_row(facts, steps, file, condition)
    if row:
        file.add(row)
    else:
        print("strata: what is between ops could not be measured by short steps of this configuration", file=sys.stderr)
    file.write()
    print(path)


def default_path(folder, machine):
    """Another machine, LibTorch or build of the kernels has another file."""
    names = [str(machine[name]) for name in MACHINE]
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
    facts = read_lines(options.facts)[-1]
    times = options.times or default_path(options.folder, facts)
    promise = Promise(facts, MachineFile(times, facts), network_of(options))
    output.say(promise)
    if options.json:
        with open(options.json, "a", encoding="utf-8") as file:
            file.write(json.dumps(output.as_json(promise)) + "\n")


def main():
    parser = Parser(prog="validate", description=__doc__)
    parser.add_argument("command", choices=("say", "short", "record"))
    for name in ("facts", "times", "lines", "steps", "json", "folder"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--latency", type=positive, help="microseconds of a link between hosts")
    parser.add_argument("--bandwidth", type=positive, help="GB/s of a link between hosts")
    options = parser.parse_args()
    if options.command == "short":
        print("\n".join(short_keys(read_lines(options.facts)[-1], options.ranks)))
    else:
        {"say": say, "record": record}[options.command](options)


if __name__ == "__main__":
    run(main)
