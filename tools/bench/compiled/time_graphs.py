# SPDX-License-Identifier: MIT
"""Times steps of PyG on a whole random graph, beside `tools/strata bench step` of the same configuration.

    pip install torch_geometric==2.8.0
    python3 tools/bench/compiled/time_graphs.py configs/arxiv_size.yaml

Level csr gives PyG the edges as a sparse CSR matrix of torch, edges as a list, and compile is edges under torch.compile. GAT
takes no matrix. The model computes in float32, whose products are in TF32, because cuSPARSE does not multiply a matrix in
float32 by one in bfloat16. Sources and targets of edges are drawn as in trainer/data/graphs/synthetic_graph.cc, but repeated
edges and self loops are left out: PyG treats them differently at its levels. The row has the edges that are left.
A level is timed after loss and gradients of a step were compared with the convolutions written out. Prints lines of JSON."""
import argparse
import json
import warnings

import torch
from time_steps import DEVICE, Limit, adamw, check_gradients, check_loss, read_config, result_fields, values_of_machine, values_or_reason
from torch import nn
from torch.nn import functional as F

PACKAGE = "torch_geometric==2.8.0"
LARGEST_ERROR = 0.02  # of error_of a gradient: the inputs of products are rounded to TF32
EDGES_AT_ONCE = 4_000_000  # of the definition
LEVELS = {"sage": ("csr", "edges", "compile"), "gcn": ("csr", "edges", "compile"), "gat": ("edges", "compile")}
MODEL_KEYS = {"type", "convolution", "features", "layers", "width", "classes", "heads"}


def graph_of(nodes, edges):
    """Returns sources and targets, int64 [edges that are left], in the order of targets."""
    target = (torch.rand(edges, device=DEVICE, dtype=torch.float64) * nodes).long()
    source = (torch.rand(edges, device=DEVICE, dtype=torch.float64) ** 3 * nodes).long()
    pairs = torch.unique((target * nodes + source)[target != source])
    return pairs % nodes, pairs // nodes


def matrix_of(source, target, nodes):
    """The edges as a CSR matrix of ones, with a row for each target."""
    offsets = F.pad(torch.bincount(target, minlength=nodes).cumsum(0), (1, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CSR matrices are called beta
        return torch.sparse_csr_tensor(offsets, source, torch.ones(len(source), device=DEVICE), (nodes, nodes), check_invariants=False)


class Network(nn.Module):
    """The convolutions of a section `model:`, with ReLU in between. The heads of gat are averaged in the last one."""

    def __init__(self, convolutions, model):
        super().__init__()
        kind, widths = model["convolution"], [model["features"], *[model["width"]] * (model["layers"] - 1), model["classes"]]
        self.layers = nn.ModuleList()
        for layer, (inputs, outputs) in enumerate(zip(widths, widths[1:]), 1):
            if kind == "gat":
                heads, is_last = model.get("heads", 1), layer == model["layers"]
                self.layers.append(convolutions.GATConv(inputs, outputs if is_last else outputs // heads, heads=heads, concat=not is_last))
            else:
                self.layers.append(convolutions.GCNConv(inputs, outputs, cached=True) if kind == "gcn" else convolutions.SAGEConv(inputs, outputs))

    def forward(self, features, graph):
        return self.through(features, lambda layer, x: layer(x, graph))

    def through(self, x, apply):
        for layer in self.layers[:-1]:
            x = F.relu(apply(layer, x))
        return apply(self.layers[-1], x)


def sum_of_neighbors(x, source, target):
    """Sums rows of x over the edges of each target."""
    total = torch.zeros_like(x)
    for sources, targets in zip(source.split(EDGES_AT_ONCE), target.split(EDGES_AT_ONCE)):
        total = total.index_add(0, targets, x[sources])
    return total


def by_definition(kind, layer, x, source, target):
    """One convolution with the weights of PyG's layer."""
    nodes = len(x)
    if kind == "sage":
        mean = sum_of_neighbors(x, source, target) / torch.bincount(target, minlength=nodes).clamp(min=1)[:, None]
        return F.linear(mean, layer.lin_l.weight, layer.lin_l.bias) + F.linear(x, layer.lin_r.weight)
    product = F.linear(x, layer.lin.weight)
    if kind == "gcn":
        scale = (torch.bincount(target, minlength=nodes) + 1).to(x.dtype).rsqrt()[:, None]  # a node is its own neighbor too
        return scale * (sum_of_neighbors(scale * product, source, target) + scale * product) + layer.bias
    source, target = (torch.cat([ends, torch.arange(nodes, device=ends.device)]) for ends in (source, target))
    h = product.unflatten(1, (layer.heads, -1))
    score = F.leaky_relu((h * layer.att_src).sum(2)[source] + (h * layer.att_dst).sum(2)[target], 0.2)
    size = score.exp()[:, :, None]
    total = torch.zeros(nodes, layer.heads, 1, device=x.device, dtype=x.dtype).index_add(0, target, size)
    y = torch.zeros_like(h).index_add(0, target, size * h[source]) / total
    return (y.flatten(1) if layer.concat else y.mean(1)) + layer.bias


def beside_sources(gradients):
    """Appends the gradient of att_src to that of att_dst. The latter may be nearly zero: what it adds to all scores of a target cancels."""
    return [torch.cat([gradient, gradients[name.replace("att_dst", "att_src")]]) if name.endswith("att_dst") else gradient
            for name, gradient in gradients.items()]


class Training:
    """Steps of PyG. Four of five nodes are for training, as in Strata's random graphs."""

    def __init__(self, convolutions, config, level):
        model, data = config["model"], config["data"]
        nodes = data["nodes"]
        self.kind, (self.source, self.target) = model["convolution"], graph_of(nodes, data["edges"])
        self.features = 2 * torch.rand(nodes, model["features"], device=DEVICE) - 1
        self.train = torch.arange(nodes, device=DEVICE)
        self.train = self.train[self.train % 5 != 4]
        self.labels = torch.randint(model["classes"], (len(self.train),), device=DEVICE)
        self.model = Network(convolutions, model).to(DEVICE)
        self.forward = torch.compile(self.model, dynamic=False) if level == "compile" else self.model
        self.graph = matrix_of(self.source, self.target, nodes) if level == "csr" else torch.stack([self.source, self.target])
        self.optimizer = adamw(self.model, config)

    def loss_of(self, logits):
        return F.cross_entropy(logits[self.train], self.labels)

    def differentiate(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.forward(self.features, self.graph))
        loss.backward()
        return loss.detach()

    def step(self):
        loss = self.differentiate()
        self.optimizer.step()
        return loss

    def check(self):
        """Returns the largest error of the gradients. Raises a ValueError if loss or gradients differ from the definition."""
        loss, parameters = self.differentiate(), list(self.model.parameters())
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        logits = self.model.through(self.features, lambda layer, x: by_definition(self.kind, layer, x, self.source, self.target))
        wanted_loss = self.loss_of(logits)
        wanted = torch.autograd.grad(wanted_loss, parameters)
        torch.set_float32_matmul_precision(before)
        check_loss(loss, wanted_loss.detach())
        names = [name for name, _ in self.model.named_parameters()]
        found, wanted = (beside_sources(dict(zip(names, each))) for each in ([parameter.grad for parameter in parameters], wanted))
        return check_gradients(self.model, found, wanted, LARGEST_ERROR)


def geometric():
    """Returns the version of PyG and its module of convolutions."""
    try:
        import torch_geometric
        import torch_geometric.nn
    except ImportError as error:
        raise SystemExit(f"the package torch_geometric, which cannot be imported ({error}), is the peer; get it with: pip install {PACKAGE}") from None
    return torch_geometric.__version__, torch_geometric.nn


def problem_of(config):
    """Why PyG would not do the work of the configuration here; empty if it does."""
    model, data, clip = config["model"], config["data"], config["optimizer"].get("gradient_clip", 1)
    if model["type"] != "graph_network" or data["type"] != "synthetic_graph":
        return f"a graph_network with data of type synthetic_graph was expected, found {model['type']} with {data['type']}"
    if model["convolution"] not in LEVELS or set(model) - MODEL_KEYS:
        return f"a convolution of {', '.join(LEVELS)} with the keys {', '.join(sorted(MODEL_KEYS))} was expected, found {model}"
    return f"optimizer.gradient_clip is {clip}, and gradients are not clipped here" if clip else ""


def timed(convolutions, config, level, arguments):
    torch.manual_seed(1)
    with Limit(arguments.limit):
        training = Training(convolutions, config, level)
        return {"nodes": config["data"]["nodes"], "edges": len(training.source), **result_fields(config, (training, training.check()), arguments)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="a configuration of Strata")
    parser.add_argument("overrides", nargs="*", help="a.b.c=value")
    parser.add_argument("--level", action="append", choices=LEVELS["sage"], help="otherwise all of the convolution")
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--limit", type=float, default=120, help="seconds of a level")
    parser.set_defaults(ranks=1)
    arguments = parser.parse_intermixed_args()
    config = read_config(arguments.config, arguments.overrides)
    if problem := problem_of(config):
        parser.error(f"{arguments.config}: {problem}")
    levels = LEVELS[config["model"]["convolution"]]
    if unknown := set(arguments.level or ()) - set(levels):
        parser.error(f"--level {', '.join(sorted(unknown))} was given with {config['model']['convolution']}, expected {', '.join(levels)}")
    version, convolutions = geometric()
    torch.set_float32_matmul_precision("high")
    for level in arguments.level or levels:
        head = {**values_of_machine(), "level": level, "ranks": 1, "pyg": version, "convolution": config["model"]["convolution"]}
        print(json.dumps({**head, **values_or_reason(timed, convolutions, config, level, arguments)}), flush=True)


if __name__ == "__main__":
    main()
