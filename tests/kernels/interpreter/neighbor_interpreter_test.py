# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of neighbor_aggregate on a CPU, in Triton's interpreter, against the formula in fp64 and
autograd."""
import unittest

from kernel_case import TOLERANCES, KernelTest, relative
from triton_interpreter import formula, kernels, launch

import torch


class GraphSide:
    """One side of a graph, as the tasks of kernels/neighbor_aggregate/neighbor_aggregate_triton.py read it."""

    LONG_ROW = 20

    def __init__(self, offsets, neighbors):
        degrees = offsets.diff()
        long_rows = (degrees > self.LONG_ROW).nonzero()[:, 0]
        pieces = (degrees[long_rows] + self.LONG_ROW - 1) // self.LONG_ROW
        self.rows = len(degrees)
        self.long_rows, self.first_pieces = long_rows.int(), torch.cat((pieces.new_zeros(1), pieces.cumsum(0))).int()
        self.pieces = int(pieces.sum())
        number = torch.arange(self.pieces) - self.first_pieces[:-1].repeat_interleave(pieces)
        piece_rows = long_rows.repeat_interleave(pieces)
        self.graph_arguments = dict(offsets=offsets, neighbors=neighbors.int(), piece_rows=piece_rows.int(), piece_begins=offsets[piece_rows] + number * self.LONG_ROW)
        self.tasks = dict(pieces=self.pieces, piece_length=self.LONG_ROW, tasks=self.pieces + self.rows)

    def partials(self, width, dtype=torch.float32):
        return torch.empty(self.pieces, width, dtype=dtype)

    def launch(self, name, **arguments):
        launch(kernels("neighbor_aggregate/neighbor_aggregate")[name], **self.graph_arguments, **self.tasks, **arguments)

    def join(self, name, **arguments):
        if self.pieces:
            launch(kernels("neighbor_aggregate/neighbor_aggregate")[name], first_pieces=self.first_pieces, long_rows=self.long_rows,
                   rows=len(self.long_rows), **arguments)

    def sum(self, x, factor, mean=False):
        width = x.shape[1]
        y, partials = torch.empty(self.rows, width, dtype=x.dtype), self.partials(width)
        self.launch("neighbor_sum", x=x, y=y, partials=partials, factor=factor, width=width, mean=int(mean), has_factor=int(factor is not None))
        self.join("neighbor_join_sums", partials=partials, y=y, offsets=self.graph_arguments["offsets"], width=width, mean=int(mean))
        return y

    def max(self, x, factor):
        width = x.shape[1]
        y, largest = torch.empty(self.rows, width, dtype=x.dtype), torch.empty(self.rows, width, dtype=torch.int32)
        partials, partial_largest = self.partials(width), self.partials(width, torch.int32)
        self.launch("neighbor_max", x=x, y=y, largest=largest, partials=partials, partial_largest=partial_largest, factor=factor, width=width,
                    has_factor=int(factor is not None))
        self.join("neighbor_join_largest", partials=partials, partial_largest=partial_largest, y=y, largest=largest, width=width)
        return y, largest

    def attention(self, x, row_scores, neighbor_scores, logsumexp, slope, rows_are_targets):
        heads, width = x.shape[1:]
        y, partials = torch.empty(self.rows, heads, width, dtype=x.dtype), self.partials(heads * width)
        self.launch("neighbor_attention_sum", x=x, y=y, partials=partials, row_scores=row_scores, neighbor_scores=neighbor_scores, logsumexp=logsumexp, heads=heads, width=width,
                    negative_slope=slope, rows_are_targets=int(rows_are_targets))
        self.join("neighbor_join_sums", partials=partials, y=y, offsets=self.graph_arguments["offsets"], width=heads * width, mean=0)
        return y


class NeighborTest(KernelTest):
    SOURCES, TARGETS, EDGES = 9, 7, 70  # the last source and the last target have no edges; half of the edges come from source 0, a third go to target 0

    def setUp(self):
        super().setUp()
        columns, rows = torch.randint(self.SOURCES - 1, (self.EDGES,)), torch.randint(self.TARGETS - 1, (self.EDGES,))
        columns[::2] = 0
        rows[::3] = 0
        self.rows, order = rows.sort(stable=True)
        self.columns = columns[order]
        self.edge_by_source = self.columns.argsort(stable=True)
        self.by_target = GraphSide(self.offsets(self.rows, self.TARGETS), self.columns)
        self.by_source = GraphSide(self.offsets(self.columns, self.SOURCES), self.rows[self.edge_by_source])

    @staticmethod
    def offsets(rows, count):
        return torch.cat((torch.zeros(1, dtype=torch.int64), rows.bincount(minlength=count).cumsum(0)))

    def formula_arguments(self):
        return self.by_target.graph_arguments["offsets"], self.columns, self.rows

    def test_sum_mean_and_their_gradients(self):
        for dtype in TOLERANCES:
            for width in (16, 33, 150):
                x, grad = torch.randn(self.SOURCES, width).to(dtype), torch.randn(self.TARGETS, width).to(dtype)
                for reduction in ("sum", "mean"):
                    weight = torch.randn(self.EDGES).to(dtype).float()
                    outputs, gradients = self.gradients(
                        lambda x, weight: formula("neighbor_aggregate").neighbor_aggregate(x, *self.formula_arguments(), weight, reduction), [x, weight], [grad])
                    y = self.by_target.sum(x, weight, mean=reduction == "mean")
                    factor = weight if reduction == "sum" else weight / self.by_target.graph_arguments["offsets"].diff()[self.rows]
                    grad_x = self.by_source.sum(grad, factor[self.edge_by_source])
                    products = torch.empty(self.EDGES)
                    self.by_target.launch("neighbor_edge_products", target_rows=grad, source_rows=x, products=products, largest=None, width=width,
                                          mean=int(reduction == "mean"), is_max=0)
                    self.assert_close([y, grad_x, products], outputs + gradients, dtype)

    def test_max_and_its_gradients(self):
        for dtype in TOLERANCES:
            for width in (16, 33):
                x, grad, weight = torch.randn(self.SOURCES, width).to(dtype), torch.randn(self.TARGETS, width).to(dtype), torch.randn(self.EDGES).to(dtype).float()
                outputs, gradients = self.gradients(
                    lambda x, weight: formula("neighbor_aggregate").neighbor_aggregate(x, *self.formula_arguments(), weight, "max"), [x, weight], [grad])
                y, largest = self.by_target.max(x, weight)
                grad_x, partials, products = torch.empty_like(x), self.by_source.partials(width), torch.empty(self.EDGES)
                self.by_source.launch("neighbor_max_backward", x=grad, y=grad_x, partials=partials, factor=weight[self.edge_by_source], edge_of=self.edge_by_source.int(),
                                      largest=largest, width=width, has_factor=1)
                self.by_source.join("neighbor_join_sums", partials=partials, y=grad_x, offsets=self.by_source.graph_arguments["offsets"], width=width, mean=0)
                self.by_target.launch("neighbor_edge_products", target_rows=grad, source_rows=x, products=products, largest=largest, width=width, mean=0, is_max=1)
                self.assert_close([y, grad_x, products], outputs + gradients, dtype)

    def test_the_maximum_is_the_first_message_that_is_not_a_number(self):
        x = torch.randn(self.SOURCES, 16)
        x[0, :8] = float("nan")  # source 0 has half of the edges
        x[1, 4:12] = float("nan")
        x[2, 12:] = float("-inf")
        y, largest = self.by_target.max(x, None)
        messages = x[self.columns]
        for row in range(self.TARGETS):
            edges = (self.rows == row).nonzero()[:, 0]
            for column in range(16):
                row_messages = messages[edges, column]
                expected = int(edges[row_messages.argmax()]) if len(edges) else -1  # argmax too returns the first NaN
                self.assertEqual(int(largest[row, column]), expected, f"row {row}, column {column}")
                value = messages[expected, column] if len(edges) else torch.tensor(0.0)
                torch.testing.assert_close(y[row, column], value, rtol=0, atol=0, equal_nan=True)

    def test_attention_and_its_gradients(self):
        slope = 0.2
        for dtype in TOLERANCES:
            for heads, width in ((2, 16), (3, 5)):
                x, grad = torch.randn(self.SOURCES, heads, width).to(dtype), torch.randn(self.TARGETS, heads, width).to(dtype)
                source_scores, target_scores = torch.randn(self.SOURCES, heads), torch.randn(self.TARGETS, heads)
                outputs, gradients = self.gradients(
                    lambda *leaves: formula("neighbor_aggregate").neighbor_attention(*leaves, *self.formula_arguments(), slope), [x, source_scores, target_scores], [grad])
                logsumexp, partials = torch.empty(self.TARGETS, heads), self.by_target.partials(heads)
                scores = dict(target_scores=target_scores, source_scores=source_scores, heads=heads, negative_slope=slope)
                self.by_target.launch("neighbor_score_logsumexp", result=logsumexp, partials=partials, **scores)
                self.by_target.join("neighbor_join_logsumexp", partials=partials, result=logsumexp, heads=heads)
                y = self.by_target.attention(x, target_scores, source_scores, logsumexp, slope, rows_are_targets=True)
                grad_x = self.by_source.attention(grad, source_scores, target_scores, logsumexp, slope, rows_are_targets=False)
                along_y, grad_score = torch.empty(self.TARGETS, heads), torch.empty(self.EDGES, heads)
                launch(kernels("neighbor_aggregate/neighbor_aggregate")["neighbor_row_dots"], a=grad, b=y, dots=along_y, rows=self.TARGETS * heads, width=width)
                self.by_target.launch("neighbor_score_gradient", grad_y=grad, x=x, gradient=grad_score, logsumexp=logsumexp, along_y=along_y, width=width, **scores)
                grad_target = GraphSide(self.by_target.graph_arguments["offsets"], torch.arange(self.EDGES)).sum(grad_score, None)
                grad_source = GraphSide(self.by_source.graph_arguments["offsets"], self.edge_by_source).sum(grad_score, None)
                self.assert_close([y, grad_x], [outputs[0], gradients[0]], dtype)
                # These are differences of products. Their error is that of grad_y . y, in which y was rounded.
                for value, expected in ((grad_source, gradients[1]), (grad_target, gradients[2])):
                    self.assertLess(relative(value, expected), 4 * TOLERANCES[dtype])


if __name__ == "__main__":
    unittest.main()
