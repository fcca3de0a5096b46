# SPDX-License-Identifier: MIT
"""Puts the rows of `tools/strata bench kernels --json` and of peers.py beside each other: for each op, shape, dtype and direction our
fastest level, its rate, each peer's microseconds, and how many times as long the fastest peer takes.

    python3 tools/bench/side_by_side.py kernels.jsonl [MORE.jsonl ...]"""
import json
import sys

LEVELS = ["aten", "torchscript", "aot_inductor", "triton", "cuda"]


def rate(row):
    """As bench kernels says it: FLOPs where they are what limits."""
    flops, moved = row.get("teraflops_per_second", 0), row.get("gigabytes_per_second", 0)
    return f"{flops:.0f} TFLOP/s" if 1e3 * flops > 50 * moved else f"{moved:.0f} GB/s"


def table(rows):
    """Lines of cells. Rows of the same things are taken as they were measured last."""
    timed = [row for row in rows if "microseconds" in row]
    peers = list(dict.fromkeys(row["level"] for row in timed if row["level"] not in LEVELS))
    found = {}
    for row in timed:
        found.setdefault((row["op"], row["shape"], row["dtype"], row["direction"]), {})[row["level"]] = row
    lines = [["op", "shape", "dtype", "direction", "ours", "us", "rate", *peers, "peer / ours"]]
    for what, by_level in found.items():
        ours = min((by_level[level] for level in LEVELS if level in by_level), key=lambda row: row["microseconds"], default=None)
        theirs = [by_level[peer]["microseconds"] for peer in peers if peer in by_level]
        cells = [ours["level"], f"{ours['microseconds']:.1f}", rate(ours)] if ours else ["-", "-", "-"]
        cells += [f"{by_level[peer]['microseconds']:.1f}" if peer in by_level else "-" for peer in peers]
        lines.append([*what, *cells, f"{min(theirs) / ours['microseconds']:.2f}" if ours and theirs else "-"])
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
