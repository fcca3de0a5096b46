# SPDX-License-Identifier: MIT
"""Prints the lines of `bench step --level ... --json`, one a level, as a table. The launcher starts it.

    python3 tools/bench/print_level_rows.py FILE [--json FILE] aten=0 torchscript=0 ...

LEVEL=CODE is a level that was run, and the exit code of its run. A level without a line gets a row too. The exit code is
the first one of a level that is not 0."""
import argparse
import json

HEAD = ["level", "ms (10 % to 90 %)", "/ aten", "peak MB", "launches", "loss", "gradient norm", "ops at other levels"]


def others(row):
    """Returns the ops that run at another level than the row's, by level: "aten: attention, linear"."""
    by_level = {}
    for op, level in row["levels"].items():
        if level != row["level"]:
            by_level.setdefault(level, []).append(op)
    return "; ".join(f"{level}: {', '.join(ops)}" for level, ops in by_level.items())


def cells(row):
    if "not_timed" in row:
        return [row["level"], *["-"] * 6, "not timed: " + " ".join(row["not_timed"].split())]
    milliseconds = f"{row['milliseconds']:.2f} ({row['milliseconds_p10']:.2f} to {row['milliseconds_p90']:.2f})"
    launches = "-" if row["launches"] is None else str(row["launches"])
    return [row["level"], milliseconds, f"{row.get('times_aten', 1):.2f}", f"{row['step_memory_bytes'] / 1e6:.1f}", launches,
            f"{row['first_loss']:.7g}", f"{row['first_gradient_norm']:.7g}", others(row)]  # fmt: skip


def complete(rows, codes):
    """Returns a row for each level of `codes`, in that order."""
    by_level = {row["level"]: row for row in rows}
    return [by_level.get(level, {"level": level, "not_timed": f"its run ended with exit code {code}; the messages above say why"})
            for level, code in codes.items()]  # fmt: skip


def print_table(lines):
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]) - 1)] + [0]
    for line in lines:
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rows")
    parser.add_argument("--json", default="")
    parser.add_argument("codes", nargs="+", metavar="LEVEL=CODE")
    arguments = parser.parse_args()
    codes = {level: int(code) for level, code in (word.split("=") for word in arguments.codes)}
    with open(arguments.rows, encoding="utf-8") as file:
        rows = complete([json.loads(line) for line in file], codes)
    if arguments.json:
        with open(arguments.json, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    print_table([HEAD, ["---"] * len(HEAD)] + [cells(row) for row in rows])
    return next((code for code in codes.values() if code), 0)


if __name__ == "__main__":
    raise SystemExit(main())
