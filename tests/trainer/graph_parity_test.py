# SPDX-License-Identifier: MIT
"""Compares the validation loss and accuracy of a trained graph network with an independent implementation in
PyTorch, and training on one graph in files of several forms."""

import math
import os
import tempfile
import unittest

import numpy
import torch
import torch.nn.functional as functional
from parity_runs import trained
from training_runs import TrainingRuns, write_graph, write_graphs

LAYERS, WIDTH, CLASSES, HEADS = 3, 24, 4, 2
ACTIVATIONS = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
}

CONFIG = """
run: {{folder: {folder}/run, ranks: 1}}
steps: 30
batch: {batch}
micro_batch: {batch}
model: {{type: graph_network, convolution: {convolution}, layers: 3, width: 24, classes: 4{more}}}
data: {data}
optimizer: {{type: adamw, learning_rate: 1e-2}}
schedule: {{type: constant}}
"""


def table(folder, name):
    return numpy.loadtxt(os.path.join(folder, name + ".csv.gz"), delimiter=",", ndmin=2)


def matrix(graph, name):
    rows, columns = graph[name + "_shape"]
    dense = torch.zeros(rows, columns, dtype=torch.float64)
    for row in range(rows):
        for place in range(*graph[name + "_indptr"][row:row + 2]):
            dense[row, graph[name + "_indices"][place]] = float(graph[name + "_data"][place])
    return dense


def forward(weights, features, adjacent, convolution, norm, residual, activation):
    """Logits of nodes, in fp64, with dense matrices, by the papers: Hamilton 2017, Kipf 2017, Xu 2019, Velickovic
    2018."""
    gives_classes = "head.weight" not in weights
    activated = ACTIVATIONS[activation]
    loops = adjacent.clone().fill_diagonal_(1)

    def linear(x, name, bias=True):
        return functional.linear(x, weights[name + ".weight"], weights[name + ".bias"] if bias else None)

    def convolve(x, name, last):
        if convolution == "sage":
            mean = adjacent @ x / adjacent.sum(1, keepdim=True).clamp(min=1)
            return linear(mean, name + "neighbor") + linear(x, name + "self", bias=False)
        if convolution == "gcn":
            scale = loops.sum(1).rsqrt()
            return linear(scale[:, None] * (loops @ (scale[:, None] * x)), name + "neighbor")
        if convolution == "gin":
            return linear(activated(linear(x + adjacent @ x, name + "mlp.up")), name + "mlp.down")
        h = linear(x, name + "neighbor", bias=False).view(len(x), HEADS, -1)
        scores = (h * weights[name + "attention.target"]).sum(-1)[:, None] + (h * weights[name + "attention.source"]).sum(-1)[None]
        shares = functional.leaky_relu(scores, 0.2).masked_fill(loops[:, :, None] == 0, -math.inf).softmax(1)
        y = torch.einsum("tsh,shf->thf", shares, h)
        return (y.mean(1) if last else y.flatten(1)) + weights[name + "neighbor.bias"]

    x = features
    if "projection.weight" in weights:
        x = x @ weights["projection.weight"] + weights["projection.bias"]
    for i in range(LAYERS):
        name = "layers.%d." % i
        of_hidden = i > 0 or "projection.weight" in weights
        y = functional.layer_norm(x, (WIDTH,), weights[name + "norm.weight"], weights[name + "norm.bias"]) if norm and of_hidden else x
        last = i + 1 == LAYERS and gives_classes
        y = convolve(activated(y) if of_hidden else y, name, last)
        x = x + y if residual and of_hidden and not last else y
    return x


def pooled(weights, x, pooling):
    """Logits of a graph from its nodes: their mean or sum, or their sum weighted by a softmax over all of them (Li
    2016)."""
    if pooling == "attention":
        x = (x @ weights["pooling.gate.weight"].t() + weights["pooling.gate.bias"]).softmax(0) * x
    return functional.linear(x.mean(0) if pooling == "mean" else x.sum(0), weights["head.weight"], weights["head.bias"])


class GraphParityTest(unittest.TestCase):
    def check(self, convolution, more="", norm=False, residual=False, activation="relu"):
        with tempfile.TemporaryDirectory() as folder:
            write_graph(folder + "/graph.npz")
            graph = numpy.load(folder + "/graph.npz")
            config = CONFIG.format(folder=folder, convolution=convolution, batch=1, more=", features: 30, projection: sparse" + more,
                                   data="{type: graph, file: %s/graph.npz}" % folder)
            weights, ours = trained(folder, config)
        adjacent = matrix(graph, "adj")
        adjacent = ((adjacent + adjacent.t()) > 0).double().fill_diagonal_(0)
        logits, labels = forward(weights, matrix(graph, "attr"), adjacent, convolution, norm, residual, activation), torch.tensor(graph["labels"])
        nodes, tested = torch.tensor(graph["validation"]), torch.tensor(graph["test"])
        self.compare(ours, logits[nodes], labels[nodes], "validation_nodes", logits[tested], labels[tested])

    def compare(self, ours, logits, labels, count, test_logits, test_labels):
        theirs = functional.cross_entropy(logits, labels).item()
        self.assertEqual(round(ours["test_accuracy"] * len(test_labels), 9), (test_logits.argmax(1) == test_labels).sum().item())
        self.assertLess(abs(ours["validation_loss"] - theirs), 1e-5 * theirs)
        self.assertEqual(round(ours["validation_accuracy"] * len(labels)), (logits.argmax(1) == labels).sum().item())
        self.assertEqual(ours[count], len(labels))
        # The model is far from its start, so that a part without effect would be found.
        self.assertGreater(ours["validation_accuracy"], 2 / CLASSES)

    def check_pooling(self, convolution, pooling, more="", residual=False):
        with tempfile.TemporaryDirectory() as folder:
            write_graphs(folder)
            config = CONFIG.format(folder=folder, convolution=convolution, batch=16, more=", features: 6, pooling: %s%s" % (pooling, more),
                                   data="{type: ogb_graphs, folder: %s}" % folder)
            weights, ours = trained(folder, config)
            nodes, edges, labels, validation, tested = (
                table(folder, name)[:, 0].astype(int)
                for name in ("raw/num-node-list", "raw/num-edge-list", "raw/graph-label", "split/random/valid", "split/random/test"))
            features = numpy.split(table(folder, "raw/node-feat"), nodes.cumsum()[:-1])
            ends = numpy.split(table(folder, "raw/edge").astype(int), edges.cumsum()[:-1])
        logits = []
        for graph in (*validation, *tested):
            adjacent = torch.zeros(nodes[graph], nodes[graph], dtype=torch.float64)
            adjacent[tuple(ends[graph].T)] = 1
            adjacent = ((adjacent + adjacent.t()) > 0).double().fill_diagonal_(0)
            x = forward(weights, torch.tensor(features[graph]).float().double(), adjacent, convolution, norm=False, residual=residual, activation="relu")
            logits.append(pooled(weights, x, pooling))
        count = len(validation)
        self.compare(ours, torch.stack(logits[:count]), torch.tensor(labels[validation]), "validation_graphs", torch.stack(logits[count:]),
                     torch.tensor(labels[tested]))

    def test_pooling_by_the_mean(self):
        self.check_pooling("gcn", "mean", ", dropout: 0.1")

    def test_pooling_by_the_sum(self):
        self.check_pooling("gin", "sum", ", residual: true", residual=True)

    def test_pooling_by_attention(self):
        self.check_pooling("gat", "attention", ", heads: 2")

    def test_sage(self):
        self.check("sage", ", norm: true, residual: true, dropout: 0.2", norm=True, residual=True)

    def test_gcn(self):
        self.check("gcn", ", norm: true", norm=True)

    def test_gin(self):
        self.check("gin", ", residual: true, norm: true", norm=True, residual=True)

    def test_gat(self):
        self.check("gat", ", heads: 2")

    def test_each_activation(self):
        for activation in ("gelu", "gelu_tanh", "silu"):
            more = ", activation: " + activation
            with self.subTest(activation):
                self.check("sage", more, activation=activation)
                self.check("gat", more + ", heads: 2, norm: true, dropout: 0.2", norm=True, activation=activation)
                self.check("gcn", more + ", norm: true, residual: true", norm=True, residual=True, activation=activation)
                self.check("gin", more + ", residual: true, norm: true, dropout: 0.1", norm=True, residual=True, activation=activation)


class GraphFilesTest(TrainingRuns):
    def test_sparse_features_in_text_and_masks_train_the_same(self):
        graph = dict(numpy.load(self.data + "/graph.npz"))
        for name in ("labels", "train", "validation", "test"):
            numpy.savetxt(f"{self.data}/{name}", graph[name], "%d")
        numpy.savetxt(self.data + "/edges", numpy.argwhere(matrix(graph, "adj").numpy()), "%d")
        path, x = self.data + "/features.gz", matrix(graph, "attr").numpy()
        node, feature = numpy.nonzero(x)
        numpy.savetxt(path, numpy.column_stack([node, feature, x[node, feature]]), "%d %d %.9g")
        masks = {name: numpy.isin(numpy.arange(len(x)), graph[name]) for name in ("train", "validation", "test")}
        numpy.savez(self.data + "/masks.npz", **{**graph, **masks})
        text = ("type: text_graph, edges: {0}/edges, features: {0}/features.gz, labels: {0}/labels, train_nodes: {0}/train, validation_nodes: {0}/validation,"
                " test_nodes: {0}/test")
        for run, data in (("npz", "type: graph, file: {0}/graph.npz"), ("masks", "type: graph, file: {0}/masks.npz"), ("text", text)):
            self.train(run, "model={type: graph_network, convolution: sage, projection: sparse, features: 30, layers: 2, width: 24, classes: 4, norm: true}",
                       "data={partition: contiguous, %s}" % data.format(self.data), "steps=10", "micro_batch=1", "evaluation.tokens=0", batch=1, device="cpu")
            self.assertEqual(len(self.losses(run)), 10)
            self.assertEqual((self.losses(run), self.hashes(run)), (self.losses("npz"), self.hashes("npz")), run)


if __name__ == "__main__":
    unittest.main()
