# SPDX-License-Identifier: MIT
"""Promises the steps of configurations that are drawn by lot, measures them with `bench step`, and prints both.

    python3 -B tools/promise/promise_error.py [--bases 4] [--draws 6] [--seed 1] [--ranks 1] [--device cpu|cuda] [--limit SECONDS]
        [--files SIDE] [--json FILE] [--strata tools/strata]

All is drawn before anything is measured. `tools/strata measure` measures each base once, and the promises of its draws come before their
steps. Times are kept in a folder of this command alone, so a promise never reads what an earlier command has measured. The last lines
are the median and the worst error of times, of memory and of energy. With --files all models are vision transformers that decode PNG files of
SIDE x SIDE pixels, in promises and in steps. What was left when --limit was over is counted, and the same command measures it:
draws of the same configuration that --json has already are not measured again. Exit code 1 if something was neither promised nor measured."""
import argparse
import concurrent.futures
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the modules that tools share

import drawn  # noqa: E402
from command_group import exit_on_signals, outputs_of  # noqa: E402

STEPS = {"cpu": ("--warm-up", "5", "--steps", "40"), "cuda": ("--warm-up", "60", "--steps", "80")}
GRACE = 5  # seconds in which a command may end its ranks


class Failed(Exception):
    """A command that ended with an error, in its last words."""


def call(options, *words):
    """Runs a command of tools/strata. What is left of --limit is its time."""
    try:
        code, out, messages = outputs_of([options.strata, *words], GRACE, max(options.end - time.monotonic(), 1), stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        raise TimeoutError from late
    if code != 0:
        raise Failed(f"{words[0]} ended with {code}: {' '.join((messages.strip() or out.strip()).splitlines()[-3:])[-400:]}")
    return out


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def promise_of(options, config, times, draw, path):
    call(options, "validate", config, *draw.keys, "--promise", "--times", times, "--json", path)
    promise = lines_of(path)[-1]
    if promise["step_seconds"] is None:
        raise Failed("no promise: " + "; ".join(reason for reasons in promise["missing"].values() for reason in reasons)[:400])
    return promise


def compare(options, base, draw, promise, steps):
    """The line of JSON of a draw. Memory is the memory of steps without an evaluation, as bench step has none. On CPUs it measures the whole
    process, so that there is nothing to compare."""
    milliseconds = [1e3 * seconds for seconds in promise["step_seconds"]]
    joules = steps.get("watts") and 1e-3 * steps["watts"] * steps["milliseconds"]
    return {
        "base": base.words, "config": base.text, "draw": " ".join(draw.keys), "files": options.files, "device": steps["device"], "ranks": steps["ranks"],
        "cuda_graph": steps["cuda_graph"], "skipped_steps": steps["skipped_steps"], "promised_ms": milliseconds, "measured_ms": steps["milliseconds"],
        "measured_p10_p90": [steps["milliseconds_p10"], steps["milliseconds_p90"]], "error": milliseconds[1] / steps["milliseconds"] - 1,
        "promised_bytes": steps["predicted_peak_memory_bytes"], "measured_bytes": steps["peak_memory_bytes"],
        "memory_error": steps["predicted_peak_memory_bytes"] / steps["peak_memory_bytes"] - 1 if options.device == "cuda" else None,
        "promised_joules": promise["step_joules"] and promise["step_joules"][1], "measured_joules": joules,
        "energy_error": promise["step_joules"][1] / joules - 1 if promise["step_joules"] and joules else None,
        "parts_ms": {name: 1e3 * times[1] for name, times in promise["step_parts_seconds"].items()},
        "reading_ms": promise.get("reading_seconds") and 1e3 * promise["reading_seconds"][1],
    }  # fmt: skip


def errors_of_base_model(options, base, draws, folder):
    """Yields (draw, line or Failed) of each draw; those for which no time is left are not there."""
    config, times, taken = (os.path.join(folder, name) for name in ("drawn.yaml", "times.jsonl", "steps.jsonl"))
    if base.kind == "files":
        drawn.write_files(folder, options.files)
    with open(config, "w", encoding="utf-8") as file:
        file.write(base.text.replace("files/train", os.path.join(folder, "files", "train")))
    data = ("--own-data",) if base.kind == "files" else ()
    try:
        call(options, "measure", config, "--times", times)
    except Failed as failed:
        for draw in draws:
            yield draw, failed
        return
    with concurrent.futures.ThreadPoolExecutor(max(os.cpu_count() // 2, 1)) as several:
        promises = [several.submit(promise_of, options, config, times, draw, os.path.join(folder, f"promise-{number}"))
                    for number, draw in enumerate(draws)]  # fmt: skip
    for draw, promise in zip(draws, promises):
        try:
            promised = promise.result()
            call(options, "bench", "step", config, *draw.keys, "--json", taken, "--profile-steps", "0", *data, *STEPS[options.device])
            yield draw, compare(options, base, draw, promised, lines_of(taken)[-1])
        except Failed as failed:
            yield draw, failed


def row(line):
    low, middle, high = line["promised_ms"]
    return (f"  {line['draw']:60} promised {middle:8.2f} ms ({low:.2f} to {high:.2f}), measured {line['measured_ms']:8.2f} ms, "
            f"error {100 * line['error']:+6.1f} %" + (f", memory {100 * line['memory_error']:+.2f} %" if line["memory_error"] is not None else "")
            + (f", energy {100 * line['energy_error']:+.1f} %" if line["energy_error"] is not None else ""))  # fmt: skip


def summary(lines, failures, left, ranks):
    """Yields the last lines."""
    for name, what in (("error", "a step"), ("memory_error", "memory"), ("energy_error", "energy")):
        compared = [line for line in lines if line[name] is not None]
        if compared:
            worst = max(compared, key=lambda line: abs(line[name]))
            yield (f"error of {what}: median {100 * statistics.median(abs(line[name]) for line in compared):.2f} %, "
                   f"worst {100 * worst[name]:+.2f} % ({worst['base']}: {worst['draw']})")  # fmt: skip
    yield f"{len(lines)} configurations with {ranks} rank(s) were promised and measured, {failures} failed, {left} were left when time was over"


def earlier_lines(options):
    """The lines of --json that earlier commands with as many ranks, and with files of the same size, have measured."""
    wanted = options.ranks, options.files
    return [line for line in lines_of(options.json) if (line["ranks"], line.get("files")) == wanted] if os.path.exists(options.json) else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("bases", 4), ("draws", 6), ("seed", 1), ("ranks", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--files", type=int, metavar="SIDE")
    parser.add_argument("--limit", type=float, default=1e6)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--json", default=os.devnull)
    parser.add_argument("--strata", default=os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "strata"))
    options = parser.parse_args()
    exit_on_signals()
    options.end = end = time.monotonic() + options.limit
    plan = list(drawn.lottery(random.Random(options.seed), options.bases, options.draws, options.ranks, options.device,
                              (drawn.files,) if options.files else drawn.KINDS))  # fmt: skip
    lines, failures = earlier_lines(options), 0
    known = {(line.get("config"), line["draw"]) for line in lines}  # the words of two bases may be the same
    plan = [(base, [draw for draw in draws if (base.text, " ".join(draw.keys)) not in known]) for base, draws in plan]
    plan = [(base, draws) for base, draws in plan if draws]
    left = sum(len(draws) for _, draws in plan)
    for number, (base, draws) in enumerate(plan):
        # Each base has its share of the time, so that none of them is left out.
        options.end = time.monotonic() + (end - time.monotonic()) / (len(plan) - number)
        print(base.words, flush=True)
        try:
            with tempfile.TemporaryDirectory() as folder, open(options.json, "a", encoding="utf-8") as file:
                for draw, line in errors_of_base_model(options, base, draws, folder):
                    left -= 1
                    if isinstance(line, Failed):
                        failures += 1
                        print(f"  {' '.join(draw.keys):60} failed: {line}", flush=True)
                        continue
                    lines.append(line)
                    print(row(line), flush=True)
                    file.write(json.dumps(line) + "\n")
                    file.flush()
        except TimeoutError:
            continue
    print("\n".join(summary(lines, failures, left, options.ranks)))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
