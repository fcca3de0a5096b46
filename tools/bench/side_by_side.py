# SPDX-License-Identifier: MIT
"""Prints the rows of `tools/strata bench kernels --json` and of peers.py side by side.

Each row is an op, shape and dtype with Strata's level that takes the least time for forward and backward together, and
the time of each peer. Microseconds are "forward + backward". The last two columns are of both directions: the time of the
fastest peer divided by Strata's time, and the time of level cuda divided by the time of level triton. There 0.90 says that
triton has 90 % of cuda's speed.

    python3 tools/bench/side_by_side.py kernels.jsonl [MORE.jsonl ...]"""
import json
import sys

LEVELS = ["aten", "torchscript", "aot_inductor", "triton", "cuda"]


def rate(row):
    """Formats the rate as bench kernels does: FLOPs if they are the limit, otherwise bytes."""
    flops, moved = row.get("teraflops_per_second", 0), row.get("gigabytes_per_second", 0)
    return f"{flops:.0f} TFLOP/s" if 1e3 * flops > 50 * moved else f"{moved:.0f} GB/s"


def whole(directions):
    return sum(row["microseconds"] for row in directions.values())


def text(directions, what):
    return " + ".join(what(directions[direction]) for direction in ("forward", "backward") if direction in directions)


def table(rows):
    """Returns lines of cells. The last of repeated rows counts. A level that lacks a direction of others is left out."""
    timed = [row for row in rows if "microseconds" in row]
    peers = list(dict.fromkeys(row["level"] for row in timed if row["level"] not in LEVELS))
    found = {}
    for row in timed:
        found.setdefault((row["op"], row["shape"], row["dtype"]), {}).setdefault(row["level"], {})[row["direction"]] = row
    lines = [["op", "shape", "dtype", "ours", "us", "rate", *peers, "peer / ours", "cuda / triton"]]
    for what, by_level in found.items():
        most = max(len(directions) for directions in by_level.values())
        by_level = {level: directions for level, directions in by_level.items() if len(directions) == most}
        ours = min((level for level in LEVELS if level in by_level), key=lambda level: whole(by_level[level]), default=None)
        theirs = [whole(by_level[peer]) for peer in peers if peer in by_level]
        microseconds = lambda directions: text(directions, lambda row: f"{row['microseconds']:.1f}")
        cells = [ours, microseconds(by_level[ours]), text(by_level[ours], rate)] if ours else ["-", "-", "-"]
        cells += [microseconds(by_level[peer]) if peer in by_level else "-" for peer in peers]
        peer_ratio = f"{min(theirs) / whole(by_level[ours]):.2f}" if ours and theirs else "-"
        triton_ratio = f"{whole(by_level['cuda']) / whole(by_level['triton']):.2f}" if {"cuda", "triton"} <= by_level.keys() else "-"
        lines.append([*what, *cells, peer_ratio, triton_ratio])
    return lines


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rows = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            rows += [json.loads(line) for line in file if line.strip()]
    lines = table(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


if __name__ == "__main__":
    main()
