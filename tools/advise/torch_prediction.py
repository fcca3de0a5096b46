# SPDX-License-Identifier: MIT
"""Rows of the table of groups, and the advice that follows from them."""
import statistics
import typing

import torch_work
from advice import Advice
from torch_groups import FUSIONS, Group

LEAST_SHARE = 0.05  # a gain below this share of a group is within the spread of two measurements, and counts as none
LEAST_WHOLE = 0.01  # the same of the whole, as in trials.py


class Row(typing.NamedTuple):
    """Groups that are equal, with the seconds of one. By the roofline `now` is the least of its nodes as they stand in the graph, and `as_op`
    the least of one op. Measured, `now` has a time for each turn, as each of `levels` has, or the words why a level was not timed."""
    group: Group
    count: int
    facts: torch_work.OpFacts
    now: tuple
    as_op: float
    levels: dict

    @property
    def timed(self):
        return {level: times for level, times in self.levels.items() if not isinstance(times, str)}

    @property
    def best(self):
        """The fastest level that was measured, or "none"."""
        return min(self.timed, key=lambda level: statistics.median(self.timed[level]), default="none")

    @property
    def before(self):
        """What the gain is of. A group without a fusion is compared with level aten, by the same timer."""
        return self.now if self.group.fusion or "aten" not in self.timed else self.timed["aten"]

    @property
    def after(self):
        """Times of the best level. If no level was timed, there is no gain."""
        return self.timed.get(self.best, self.now) if self.levels else (self.as_op,)

    @property
    def gain(self):
        """Seconds that all groups of the row are predicted to become shorter: the median over turns of the difference in one turn. The load of
        a machine changes between turns, so that the least times of two things may be from different loads."""
        saved = statistics.median(before - after for before, after in zip(self.before, self.after))
        return self.count * saved if saved > LEAST_SHARE * statistics.median(self.before) else 0


def counted(groups):
    """Returns [(group, how many are equal to it)], in the order of the graph."""
    found = {}
    for group in groups:
        found.setdefault(group.key, [group, 0])[1] += 1
    return [tuple(each) for each in found.values()]


def rows_by_roofline(grouping, facts, roofline, backward):
    for group, count in counted(grouping.groups):
        now, as_op = torch_work.least_seconds(group, grouping.graph, facts, roofline[group.dtype], backward)
        yield Row(group, count, facts.of(group.op, group.shape, group.dtype), (now,), as_op, {})


def measured_rows(rows, measure_nodes, measure_levels, turns):
    """Returns the rows with times. In each turn `measure_nodes(group)` runs the nodes of each group, and `measure_levels(groups)` all levels."""
    nodes, levels = [[] for _ in rows], [{} for _ in rows]
    for _ in range(turns):
        times = measure_levels([row.group for row in rows])
        for row, now, found in zip(rows, nodes, levels):
            now.append(measure_nodes(row.group))
            for level, seconds in times.get((row.group.op, row.group.shape, row.group.dtype), {}).items():
                if isinstance(seconds, str) or isinstance(found.get(level), str):
                    found[level] = seconds if isinstance(seconds, str) else found[level]
                else:
                    found.setdefault(level, []).append(seconds)
    return [row._replace(now=tuple(now), levels=found or {"aten": "bench kernels has no row of it"}) for row, now, found in zip(rows, nodes, levels)]


def advices(grouping, rows):
    """Returns an advice for each kind of missed fusion, and one for faster levels."""
    found = []
    for fusion, why in FUSIONS.items():
        missed = [row for row in rows if row.group.fusion == fusion]
        if missed:
            where = "; ".join(f"{row.count} x {row.group.op} {row.group.shape}" for row in missed)
            found.append(Advice(fusion, (), 1e3 * sum(row.gain for row in missed), None, f"{where}. In Strata {why}."))
    faster = [row for row in rows if not row.group.fusion and row.gain > 0]
    if faster:
        where = "; ".join(f"{row.count} x {row.group.op} {row.group.shape} is faster at level {row.best} than at aten" for row in faster)
        found.append(Advice("levels", (), 1e3 * sum(row.gain for row in faster), None, where + "."))
    return found + list(losses_apart(grouping))


def losses_apart(grouping):
    """Output layers whose logits only the loss reads are one op with it. Its time depends on more than both have, so it is unknown."""
    by_node = {node.name: group for group in grouping.groups for node in group.nodes}
    for group in grouping.groups:
        if group.op != "cross_entropy":
            continue
        logits = grouping.matcher.source(group.nodes[0].first)
        head = by_node.get(getattr(grouping.graph.producers.get(logits), "name", None))
        if head is not None and head.op == "linear" and head.shape.count(" ") == 0 and grouping.matcher.sole_user(logits) is not None:
            why = FUSIONS["output layer + loss"]
            yield Advice("output layer + loss", (), None, grouping.graph.tensors[logits].bytes, f"linear_cross_entropy {head.shape}. In Strata {why}.")
