# SPDX-License-Identifier: MIT
"""Checks the program of PyG's steps on the CPU. PyG is no package of this project: convolutions of dense matrices stand for it."""
import contextlib
import io
import json
import os
import sys
import types
import unittest
from unittest import mock

import torch
from torch import nn

sys.path[:0] = [os.path.abspath("tools/bench/compiled"), os.path.abspath("tools/bench")]
import time_graphs  # noqa: E402

CONFIG = os.path.abspath("configs/arxiv_size.yaml")
SMALL = ["data.nodes=90", "data.edges=800", "model.features=6", "model.width=8", "model.classes=5", "--warm-up=1", "--steps=2"]
GAT = ["model.convolution=gat", "model.heads=4"]


def dense(graph, nodes):
    """A row for each target. graph: a CSR matrix, or sources and targets."""
    if graph.layout == torch.sparse_csr:
        return graph.to_dense()
    return torch.zeros(nodes, nodes).index_put((graph[1], graph[0]), torch.ones(graph.size(1)), accumulate=True)


class SageConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin_l, self.lin_r = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, graph):
        matrix = dense(graph, len(x))
        return self.lin_l(matrix / matrix.sum(1, keepdim=True).clamp(min=1) @ x) + self.lin_r(x)


class GcnConv(nn.Module):
    def __init__(self, inputs, outputs, cached):
        super().__init__()
        self.lin, self.bias = nn.Linear(inputs, outputs, bias=False), nn.Parameter(torch.rand(outputs))

    def forward(self, x, graph):
        matrix = dense(graph, len(x)) + torch.eye(len(x))
        scale = torch.diag(matrix.sum(1) ** -0.5)
        return scale @ matrix @ scale @ self.lin(x) + self.bias


class GatConv(nn.Module):
    def __init__(self, inputs, outputs, heads, concat):
        super().__init__()
        self.heads, self.concat, self.lin = heads, concat, nn.Linear(inputs, heads * outputs, bias=False)
        self.att_src, self.att_dst = (nn.Parameter(torch.randn(1, heads, outputs)) for _ in range(2))
        self.bias = nn.Parameter(torch.rand(heads * outputs if concat else outputs))

    def forward(self, x, graph):
        seen, h = dense(graph, len(x)) + torch.eye(len(x)) > 0, self.lin(x).unflatten(1, (self.heads, -1)).transpose(0, 1)
        scores = (h * self.att_dst[0][:, None]).sum(2)[:, :, None] + (h * self.att_src[0][:, None]).sum(2)[:, None]
        y = nn.functional.leaky_relu(scores, 0.2).masked_fill(~seen, -torch.inf).softmax(2) @ h
        return (y.transpose(0, 1).flatten(1) if self.concat else y.mean(0)) + self.bias


CONVOLUTIONS = types.SimpleNamespace(SAGEConv=SageConv, GCNConv=GcnConv, GATConv=GatConv)


def rows_of(*words, convolutions=CONVOLUTIONS):
    with contextlib.redirect_stdout(io.StringIO()) as output, mock.patch.object(sys, "argv", ["", CONFIG, *SMALL, *words]), \
            mock.patch.object(time_graphs, "geometric", lambda: ("2.8.0", convolutions)), mock.patch.object(torch, "compile", lambda model, **_: model):
        time_graphs.main()
    return [json.loads(line) for line in output.getvalue().splitlines()]


class GraphPeersTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())

    def test_steps_are_checked_and_timed(self):
        for words, levels, parameters in (([], ["csr", "edges", "compile"], 6 * 8 * 2 + 8 + 8 * 8 * 2 + 8 + 8 * 5 * 2 + 5),
                                          (["model.convolution=gcn"], ["csr", "edges", "compile"], 6 * 8 + 8 + 8 * 8 + 8 + 8 * 5 + 5),
                                          (GAT, ["edges", "compile"], (6 + 3) * 8 + (8 + 3) * 8 + (8 + 2) * 20 + 5)):
            rows = rows_of(*words)
            self.assertEqual([(row["level"], row.get("parameters"), row.get("steps")) for row in rows], [(level, parameters, 2) for level in levels], rows)
            for row in rows:
                self.assertTrue(0 < row["gradient_error"] < 1e-4 and 1 < row["loss"] < 4 and row["milliseconds"] > 0, row)
                self.assertTrue(600 < row["edges"] < 800, row)

    def test_the_definition_takes_edges_in_parts(self):
        with mock.patch.object(time_graphs, "EDGES_AT_ONCE", 50):
            for row in rows_of():
                self.assertLess(row["gradient_error"], 1e-4, row)

    def test_what_computes_something_else_is_not_timed(self):
        class Sum(SageConv):  # of neighbors, and not their mean
            def forward(self, x, graph):
                return self.lin_l(dense(graph, len(x)) @ x) + self.lin_r(x)

        class Alone(GcnConv):  # no node is its own neighbor
            def forward(self, x, graph):
                return super().forward(x, graph) - self.lin(x) / (dense(graph, len(x)).sum(1, keepdim=True) + 1)

        class Backwards(GatConv):
            def forward(self, x, graph):
                return super().forward(x, graph.flip(0))

        class Frozen(SageConv):  # right values without one gradient
            def forward(self, x, graph):
                return super().forward(x, graph) - self.lin_r(x) + self.lin_r(x).detach() + 0 * self.lin_r.weight.sum()

        for name, wrong, words in (("SAGEConv", Sum, []), ("GCNConv", Alone, ["model.convolution=gcn"]), ("GATConv", Backwards, GAT), ("SAGEConv", Frozen, [])):
            with self.subTest(wrong.__name__):
                for row in rows_of(*words, convolutions=types.SimpleNamespace(**{**vars(CONVOLUTIONS), name: wrong})):
                    self.assertRegex(row["not_timed"], "by the plain model|differs from the plain model")

    def test_the_graph_is_drawn_as_stratas(self):
        torch.manual_seed(1)
        source, target = time_graphs.graph_of(10_000, 400_000)
        pairs = set(zip(source.tolist(), target.tolist()))
        self.assertEqual(len(pairs), len(source))
        self.assertFalse((source == target).any())
        self.assertTrue((target.diff() >= 0).all())
        self.assertAlmostEqual((source < 80).double().mean().item(), 0.2, delta=0.03)  # the cube root of 0.008, less what was repeated
        self.assertAlmostEqual(target.double().mean().item() / 10_000, 0.5, delta=0.01)
        matrix = time_graphs.matrix_of(source, target, 10_000)
        self.assertEqual(matrix.values().sum(), len(source))
        self.assertTrue(torch.equal(matrix.to_sparse_coo().indices(), torch.stack([target, source])))

    def test_without_pyg_it_says_what_to_install(self):
        with mock.patch.dict(sys.modules, {"torch_geometric": None}), mock.patch.object(sys, "argv", ["", CONFIG]), \
                self.assertRaisesRegex(SystemExit, "torch_geometric, which cannot be imported .*pip install torch_geometric=="):
            time_graphs.main()

    def test_wrong_configurations_are_refused(self):
        for words, expected in ((["model.convolution=gin"], "a convolution of sage, gcn, gat"), (["model.norm=true"], "'norm': True"),
                                (["data.type=graph"], "found graph_network with graph"), (["optimizer.gradient_clip=1"], "gradients are not clipped here"),
                                ([*GAT, "--level=csr"], "--level csr was given with gat, expected edges, compile")):  # fmt: skip
            with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
                rows_of(*words)
            self.assertIn(expected, said.getvalue())


if __name__ == "__main__":
    unittest.main()
