# SPDX-License-Identifier: MIT
"""A graph network trained here has the same validation loss and accuracy in an independent implementation in PyTorch."""

import json
import math
import os
import subprocess
import tempfile
import unittest

import numpy
import torch
import torch.nn.functional as functional
from safetensors.torch import load_file
from training_runs import write_graph

TRAIN = os.path.abspath("trainer/train")
EXPORT = os.path.abspath("tools/export")
LAYERS, WIDTH, FEATURES, CLASSES, HEADS = 3, 24, 30, 4, 2

CONFIG = """
run: {{folder: {folder}/run, ranks: 1}}
steps: 30
batch: 1
micro_batch: 1
model: {{type: graph_network, convolution: {convolution}, layers: 3, width: 24, features: 30, classes: 4{more}}}
data: {{type: graph, file: {folder}/graph.npz}}
optimizer: {{type: adamw, learning_rate: 1e-2}}
schedule: {{type: constant}}
"""


def matrix(graph, name):
    rows, columns = graph[name + "_shape"]
    dense = torch.zeros(rows, columns, dtype=torch.float64)
    for row in range(rows):
        for place in range(*graph[name + "_indptr"][row:row + 2]):
            dense[row, graph[name + "_indices"][place]] = float(graph[name + "_data"][place])
    return dense


def forward(weights, features, adjacent, convolution, norm, residual):
    """Logits in fp64, with dense matrices, by the papers: Hamilton 2017, Kipf 2017, Xu 2019, Velickovic 2018."""
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
            return linear(linear(x + adjacent @ x, name + "mlp.up").relu(), name + "mlp.down")
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
        y = functional.layer_norm(x, (WIDTH,), weights[name + "norm.weight"], weights[name + "norm.bias"]) if norm else x
        y = convolve(y.relu(), name, i + 1 == LAYERS)
        x = x + y if residual and i + 1 < LAYERS else y
    return x


class GraphParityTest(unittest.TestCase):
    def check(self, convolution, more="", norm=False, residual=False):
        with tempfile.TemporaryDirectory() as folder:
            write_graph(folder + "/graph.npz")
            graph = numpy.load(folder + "/graph.npz")
            with open(folder + "/config.yaml", "w", encoding="utf-8") as file:
                file.write(CONFIG.format(folder=folder, convolution=convolution, more=", projection: sparse" + more))
            for command in ([TRAIN, folder + "/config.yaml"], [EXPORT, folder + "/run", folder + "/weights"]):
                result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            weights = {name: value.double() for name, value in load_file(folder + "/weights/model.safetensors").items()}
            with open(folder + "/run/metrics.jsonl", encoding="utf-8") as file:
                ours = [json.loads(line) for line in file if "validation_loss" in line][-1]
        adjacent = matrix(graph, "adj")
        adjacent = ((adjacent + adjacent.t()) > 0).double().fill_diagonal_(0)
        nodes, labels = torch.tensor(graph["validation"]), torch.tensor(graph["labels"])
        logits = forward(weights, matrix(graph, "attr"), adjacent, convolution, norm, residual)[nodes]
        theirs = functional.cross_entropy(logits, labels[nodes]).item()
        self.assertLess(abs(ours["validation_loss"] - theirs), 1e-5 * theirs)
        self.assertEqual(round(ours["validation_accuracy"] * len(nodes)), (logits.argmax(1) == labels[nodes]).sum().item())
        self.assertEqual(ours["validation_nodes"], len(nodes))
        # Far from the start, so that a part without effect would show.
        self.assertGreater(ours["validation_accuracy"], 2 / CLASSES)

    def test_sage(self):
        self.check("sage", ", norm: true, residual: true, dropout: 0.2", norm=True, residual=True)

    def test_gcn(self):
        self.check("gcn", ", norm: true", norm=True)

    def test_gin(self):
        self.check("gin", ", residual: true, norm: true", norm=True, residual=True)

    def test_gat(self):
        self.check("gat", ", heads: 2")


if __name__ == "__main__":
    unittest.main()
