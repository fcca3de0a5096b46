# SPDX-License-Identifier: MIT
"""advise --torch FILE.pt2: what a model of PyTorch is in ops of Strata, and what its time could become.

FILE is written by torch.export.save(torch.export.export(model, inputs), FILE). Its graph is read as JSON: nothing is unpickled, and
no code of the file runs. With --measure PyTorch runs the operators of the graph that are in a list, on random numbers."""
import argparse
import os
import statistics
import sys

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # of the modules that tools share

import advice  # noqa: E402
import torch_family  # noqa: E402
import torch_prediction  # noqa: E402
import torch_times  # noqa: E402
import torch_work  # noqa: E402
from bad_input import BadInput, Parser, printable, run, stop  # noqa: E402
from torch_graph import Graph  # noqa: E402
from torch_groups import grouped  # noqa: E402

MOST_NAMED = 6  # words of a list in a line
TURNS = 3  # of measurements, between which other programs of the machine may come and go


def scaled(number, unit):
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def counted(number, noun):
    return f"{number} {noun}" + ("" if number == 1 else "s")


def milliseconds(seconds):
    return f"{1e3 * seconds:.3f}"


def table(rows, backward, measured):
    """Yields the lines of the groups: work of one, then milliseconds of one."""
    last = f"{'now ms':>9} {'aten ms':>9} {'best ms':>9} level" if measured else f"{'now ms':>9} {'as op ms':>9}"
    yield f"{'times':>5} {'op':<22} {'shape':<44} {'FLOP':>8} {'bytes':>8} {last}"
    for row in rows:
        work = row.facts.forward + row.facts.backward if backward else row.facts.forward
        times = f"{milliseconds(statistics.median(row.now)):>9} "
        if measured:
            aten, best = (milliseconds(statistics.median(row.timed[level])) if level in row.timed else "-" for level in ("aten", row.best))
            times += f"{aten:>9} {best:>9} {row.best}"
        else:
            times += f"{milliseconds(row.as_op):>9}"
        name = f"{row.group.op} {'' if row.group.dtype == 'fp32' else row.group.dtype}".strip()
        yield f"{row.count:>5} {name:<22} {row.group.shape:<44} {scaled(work.flops, ''):>8} {scaled(work.bytes, 'B'):>8} {times}"
        if row.group.fusion:
            yield f"      from {len(row.group.nodes)} nodes: {row.group.fusion}"
        for level, words in row.levels.items():
            if isinstance(words, str):
                yield f"      {level} was not timed: {words}"


def levels_here(rows):
    """Yields a line for all ops that have the same levels."""
    ops = {}
    for op, facts in {row.group.op: row.facts for row in rows}.items():
        there = [level for level, absent in facts.levels.items() if not absent]
        absent = [f"{level} ({why})" for level, why in facts.levels.items() if why]
        ops.setdefault(", ".join(there) + (f"; not {', '.join(absent)}" if absent else ""), []).append(op)
    yield "levels on this machine:"
    for levels, names in ops.items():
        yield f"   {', '.join(names)}: {levels}"


def outside(grouping):
    """Yields what no op of Strata computes, by operator."""
    kinds = {}
    for node in grouping.outside.values():
        kinds.setdefault((node.op, grouping.refused.get(node.name, "")), []).append(node.name)
    yield "outside of Strata's ops: " + ("nothing" if not kinds else counted(len(grouping.outside), "node"))
    for (op, why), names in sorted(kinds.items()):
        unknown = "" if op.startswith(("aten.", "_operator.")) else "no operator of PyTorch, so that nothing is known of it"
        named = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
        yield f"   {op}, {counted(len(names), 'time')} ({named})" + (f": {why or unknown}" if why or unknown else "")


def rooflines(grouping):
    dtypes = {group.dtype for group in grouping.groups} or {"fp32"}  # what is outside has a time without groups too
    return {dtype: torch_times.measured_roofline(dtype) for dtype in sorted(dtypes)}


def whole_seconds(grouping, rows, roofline, backward, measured):
    """Returns the seconds of the whole graph now, and the words how they were found; None if nodes are unknown."""
    if measured:
        part = torch_times.Part(grouping.graph, grouping.graph.nodes)
        if part.unknown:
            return None, f"the whole was not run, because {', '.join(part.unknown)} is not in the list of operators that are run"
        return statistics.median(part.seconds(backward) for _ in range(TURNS)), "measured by PyTorch, node by node"
    known = [node for node in grouping.outside.values() if node.op.startswith("aten.") and all(name in grouping.graph.tensors for name in node.outputs)]
    fastest = next(iter(roofline.values()))
    others = sum(torch_work.node_work(grouping.graph, node, backward).seconds(fastest) for node in known)
    return sum(row.count * statistics.median(row.now) for row in rows) + others, "the least by memory and products of this machine, so a real one is longer"


def predictions(grouping, rows, whole, how, backward, measured):
    of = "forward and backward" if backward else "forward"
    least = 1e3 * torch_prediction.LEAST_WHOLE * (whole or 0)
    ranked = advice.ranked(torch_prediction.advices(grouping, rows))
    found = [each for each in ranked if each.milliseconds is None or each.milliseconds > least]
    small = [each for each in ranked if each not in found]
    gain = sum(row.gain for row in rows)
    if whole is None:
        yield f"{of}: {how}"
        yield f"predicted gain of the groups: {milliseconds(gain)} ms"
    elif gain > whole:
        yield f"{of}: {milliseconds(whole)} ms, {how}"
        yield (f"predicted gain: unknown. Groups alone would gain {milliseconds(gain)} ms, more than the whole takes, as where other programs use "
               "the machine. Measure again.")
    else:
        yield f"{of}: {milliseconds(whole)} ms, {how}"
        yield f"predicted gain: {milliseconds(gain)} ms, {100 * gain / max(whole, 1e-12):.0f} % of it"
    yield ("   Assumed: groups run one after another and what is outside stays as it is. A gain of less than "
           f"{100 * torch_prediction.LEAST_SHARE:.0f} % of a group counts as none" + ("; it is the median of three turns." if measured else "."))
    yield f"missed fusions and slow levels: {len(found)}" if found else "nothing to gain is known"
    yield from advice.lines(found, 1e3 * whole if whole else None, of)
    if small:
        yield "missed too, with a predicted gain of less than 1 %:"
        yield from (f"   {each.rule}: {each.reason}" for each in small)


def report(options):
    grouping, backward = grouped(Graph(options.file)), not options.forward
    facts = torch_work.Facts(options.op_facts)
    roofline = rooflines(grouping)
    rows = list(torch_prediction.rows_by_roofline(grouping, facts, roofline, backward))
    if options.measure:
        rows = torch_prediction.measured_rows(rows, lambda group: torch_times.Part(grouping.graph, group.nodes).seconds(backward),
                                              lambda groups: torch_times.level_times(options.bench_kernels, groups, backward), TURNS)  # fmt: skip
    device = rows[0].facts.device if rows else "this machine"
    groups = counted(len(grouping.groups), "group")
    yield f"{options.file}: {counted(len(grouping.graph.nodes), 'node')}; {groups} of them that are ops of Strata; on {device}"
    if grouping.graph.symbols:
        yield "   Sizes that may vary have their values in the example with which the model was exported."
    if rows:
        yield from table(rows, backward, options.measure)
        yield from levels_here(rows)
    yield from outside(grouping)
    whole, how = whole_seconds(grouping, rows, roofline, backward, options.measure)
    yield from predictions(grouping, rows, whole, how, backward, options.measure)
    yield from torch_family.described(grouping)


def main():
    parser = Parser(prog="advise", description=__doc__)
    parser.add_argument("op_facts", help=argparse.SUPPRESS)
    parser.add_argument("bench_kernels", help=argparse.SUPPRESS)
    parser.add_argument("--torch", dest="file", required=True, metavar="FILE", help="a file of torch.export.save")
    parser.add_argument("--measure", action="store_true", help="time the nodes by PyTorch and the levels by bench kernels")
    parser.add_argument("--forward", action="store_true", help="without the backward")
    options = parser.parse_args()
    try:
        for line in report(options):
            print(printable(line.replace("\n", "?")), flush=True)
    except BadInput as bad:
        stop(bad, 2)


if __name__ == "__main__":
    run(main)
