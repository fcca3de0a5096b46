# SPDX-License-Identifier: MIT
"""The time of a collective: interpolated between measured sizes, and for other numbers of ranks a model of a ring.

In a ring of n ranks an all-gather or a reduce-scatter of B bytes takes n - 1 rounds of B / n bytes, and an all-reduce twice as many.
Each round takes a latency and its bytes / bandwidth. Both follow from the table of the m ranks that were measured: the latency is
the time of the smallest collective / rounds, and the bandwidth is what the rest of a collective's time leaves. The model computes
means; its bounds are as many times the mean as those that were measured. A tree, which NCCL takes for small all-reduces on many
ranks, has a lower latency; a network between hosts may have a lower bandwidth, and is told by options."""
import bisect

ROUNDS = {"all_gather": 1, "reduce_scatter": 1, "all_reduce": 2}  # times (n - 1)
# The first two take no longer than an all-gather of as many bytes.
OF_SIZE = {"broadcast": "all_gather", "all_to_all": "all_gather", "all_reduce_max": "all_reduce"}


class Links:
    """`rows` are of kind collective, measured by `ranks`. `network` is (seconds, bytes a second) of a link, or None."""

    def __init__(self, rows, ranks, network=None):
        self.ranks, self.network, self.tables = ranks, network, {}
        for row in rows:
            self.tables.setdefault(row["operation"], []).append((row["bytes"], row["seconds"]))
        for table in self.tables.values():
            table.sort(key=lambda entry: entry[0])

    def has(self, operation):
        return OF_SIZE.get(operation, operation) in self.tables

    def seconds(self, operation, size, ranks):
        """Returns the three times of a collective of `size` bytes."""
        operation = OF_SIZE.get(operation, operation)
        measured = self.interpolated(operation, size)
        if (ranks == self.ranks and not self.network) or measured[1] == 0:
            return measured
        rounds, rounds_there = ROUNDS[operation] * (ranks - 1), ROUNDS[operation] * (self.ranks - 1)
        latency = self.tables[operation][0][1][1] / rounds_there
        sent_there = ROUNDS[operation] * size * (self.ranks - 1) / self.ranks
        pace = max(measured[1] - rounds_there * latency, 0) / max(sent_there, 1)  # seconds a byte
        if self.network:
            latency, pace = max(latency, self.network[0]), max(pace, 1 / self.network[1])
        mean = rounds * latency + ROUNDS[operation] * size * (ranks - 1) / ranks * pace
        return [mean * (time / measured[1]) for time in measured]

    def interpolated(self, operation, size):
        """Between two sizes a line; below the smallest its time; above the largest as many bytes a second."""
        table = self.tables[operation]
        sizes = [entry[0] for entry in table]
        at = bisect.bisect_left(sizes, size)
        if at == 0:
            return list(table[0][1])
        if at == len(table):
            return [time * size / sizes[-1] for time in table[-1][1]]
        (small, low), (large, high) = table[at - 1], table[at]
        share = (size - small) / (large - small)
        return [a + share * (b - a) for a, b in zip(low, high)]
