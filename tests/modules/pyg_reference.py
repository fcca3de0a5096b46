# SPDX-License-Identifier: MIT
"""Writes pyg_reference.json: graph convolutions and poolings of PyG with random weights, their outputs, gradients
and initial values.

Run by hand where torch_geometric (2.8.1) is installed: python pyg_reference.py > pyg_reference.json
"""
import json

import torch
import torch_geometric
from torch_geometric.nn import AttentionalAggregation, GATConv, GCNConv, GINConv, SAGEConv, global_add_pool, global_mean_pool

NODES = 9
# Node 4 has no neighbors, and no edge starts at node 8. Edges are directed and unordered.
EDGES = [(1, 0), (2, 0), (5, 0), (0, 1), (7, 1), (3, 2), (0, 3), (1, 3), (2, 3), (4, 3), (5, 3), (6, 3), (4, 5), (0, 6), (6, 7), (3, 8), (7, 8)]


def mlp(inputs, width, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Linear(width, outputs))


def layer(kind, inputs, outputs, width, heads, last, reduction):
    """Returns the layer of PyG and its parameters by Strata's names."""
    if kind == "sage":
        conv = SAGEConv(inputs, outputs, aggr=reduction)
        return conv, {"neighbor.weight": conv.lin_l.weight, "neighbor.bias": conv.lin_l.bias, "self.weight": conv.lin_r.weight}
    if kind == "gcn":
        conv = GCNConv(inputs, outputs)
        return conv, {"neighbor.weight": conv.lin.weight, "neighbor.bias": conv.bias}
    if kind == "gin":
        conv = GINConv(mlp(inputs, width, outputs))
        up, _, down = conv.nn
        return conv, {"mlp.up.weight": up.weight, "mlp.up.bias": up.bias, "mlp.down.weight": down.weight, "mlp.down.bias": down.bias}
    conv = GATConv(inputs, outputs if last else outputs // heads, heads=heads, concat=not last)
    return conv, {"neighbor.weight": conv.lin.weight, "attention.source": conv.att_src, "attention.target": conv.att_dst, "neighbor.bias": conv.bias}


def numbers(tensor):
    return [float("%.9g" % value) for value in tensor.detach().flatten().tolist()]


def case(kind, inputs, outputs, width, heads=1, last=False, reduction="mean"):
    conv, parameters = layer(kind, inputs, outputs, width, heads, last, reduction)
    for value in parameters.values():  # including biases
        torch.nn.init.normal_(value, std=0.5)
    x = torch.randn(NODES, inputs, requires_grad=True)
    y = conv(x, torch.tensor(EDGES).t())
    gradient = torch.randn_like(y)
    y.backward(gradient)
    return {"kind": kind, "reduction": reduction, "inputs": inputs, "outputs": outputs, "width": width, "heads": heads, "last": last,
            "x": numbers(x), "y": numbers(y), "y_gradient": numbers(gradient), "x_gradient": numbers(x.grad),
            "parameters": {name: {"value": numbers(value), "gradient": numbers(value.grad)} for name, value in parameters.items()}}


def pooling(kind, width):
    """Returns the inputs, outputs and gradients of a pooling over graphs of 1 to 5 nodes."""
    sizes = torch.tensor([3, 1, 5, 2])
    graph_of_node = torch.arange(len(sizes)).repeat_interleave(sizes)
    gate = torch.nn.Linear(width, 1)
    pool = {"mean": global_mean_pool, "sum": global_add_pool, "attention": AttentionalAggregation(gate)}[kind]
    parameters = {"pooling.gate.weight": gate.weight, "pooling.gate.bias": gate.bias} if kind == "attention" else {}
    for value in parameters.values():
        torch.nn.init.normal_(value, std=2)
    x = torch.randn(len(graph_of_node), width, requires_grad=True)
    y = pool(x, graph_of_node)
    gradient = torch.randn_like(y)
    y.backward(gradient)
    return {"pooling": kind, "width": width, "sizes": sizes.tolist(),
            "x": numbers(x), "y": numbers(y), "y_gradient": numbers(gradient), "x_gradient": numbers(x.grad),
            "parameters": {name: {"value": numbers(value), "gradient": numbers(value.grad)} for name, value in parameters.items()}}


def first_values(kind, inputs, outputs, heads):
    """Returns the largest initial value and the deviation of each parameter, over enough layers for a good estimate."""
    found = {}
    for _ in range(40):
        for name, value in layer(kind, inputs, outputs, outputs, heads, False, "mean")[1].items():
            found.setdefault(name, []).append(value.detach().flatten())
    return {"kind": kind, "inputs": inputs, "outputs": outputs, "heads": heads,
            "parameters": {name: {"largest": torch.cat(values).abs().max().item(), "deviation": torch.cat(values).pow(2).mean().sqrt().item()}
                           for name, values in found.items()}}


torch.manual_seed(1)
print(json.dumps({
    "pyg": torch_geometric.__version__, "torch": torch.__version__, "nodes": NODES, "edges": EDGES,
    "cases": [case("sage", 5, 3, 4), case("sage", 4, 6, 6), case("sage", 5, 3, 4, reduction="max"), case("sage", 4, 6, 6, reduction="max"),
              case("gcn", 5, 3, 4), case("gcn", 4, 6, 6), case("gin", 5, 3, 4), case("gat", 5, 6, 6, heads=3), case("gat", 5, 4, 6, heads=2, last=True),
              case("gat", 3, 4, 4)],
    "first_values": [first_values("sage", 60, 48, 1), first_values("gcn", 60, 48, 1), first_values("gin", 60, 48, 1), first_values("gat", 60, 48, 4)],
    "poolings": [pooling("mean", 5), pooling("sum", 3), pooling("attention", 6)],
}))
