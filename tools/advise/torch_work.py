# SPDX-License-Identifier: MIT
"""Bytes and FLOPs of groups, as they stand in a graph and as one op, and the least time of both on this machine.

op_facts gives the least work of an op at a shape. A node that is no op by itself reads its arguments and writes its results once, and
its backward is taken for twice that."""
import json
import subprocess
import typing

import torch_patterns
from bad_input import BadInput

PRODUCTS = ("aten.matmul", "aten.mm", "aten.bmm", "aten.addmm", "aten.linear", "aten.scaled_dot_product_attention")


class Work(typing.NamedTuple):
    bytes: float = 0
    flops: float = 0

    def __add__(self, other):
        return Work(self.bytes + other.bytes, self.flops + other.flops)

    def seconds(self, roofline):
        return max(self.bytes / roofline.bytes_per_second, self.flops / roofline.flops_per_second)


class Roofline(typing.NamedTuple):
    bytes_per_second: float
    flops_per_second: float


class OpFacts(typing.NamedTuple):
    """`levels` has "" or the reason why the level is not on this machine."""
    device: str
    levels: dict
    forward: Work
    backward: Work


class Facts:
    """Asks the program op_facts, once for each op and shape."""

    def __init__(self, program):
        self.program, self.known = program, {}

    def of(self, op, shape, dtype):
        key = op, shape, dtype
        if key not in self.known:
            asked = subprocess.run([self.program, op, "--shape", shape, "--dtype", dtype], capture_output=True, text=True, check=False)
            if asked.returncode:
                raise BadInput(f"op {op} has no shape {shape}: {asked.stderr.strip()}")
            facts = json.loads(asked.stdout)
            forward, backward = (Work(**facts["shapes"][0][name]) for name in ("forward", "backward"))
            self.known[key] = OpFacts(facts["device"], {level["level"]: level["absent"] for level in facts["levels"]}, forward, backward)
        return self.known[key]


def op_work(group, facts, backward):
    found = facts.of(group.op, group.shape, group.dtype)
    return found.forward + found.backward if backward else found.forward


def node_work(graph, node, backward):
    tensors = [graph.tensors[name] for name in (*dict.fromkeys(node.references), *node.outputs) if name in graph.tensors]
    work = Work(sum(tensor.bytes for tensor in tensors), flops_of(graph, node))
    return work + work + work if backward else work


def flops_of(graph, node):
    if node.op not in PRODUCTS:
        return 0
    written = graph.tensors[node.outputs[0]]
    operands = [graph.tensors[name] for name in node.references]
    if node.op == "aten.scaled_dot_product_attention":
        return 4 * operands[0].count * operands[1].sizes[-2]
    return 2 * written.count * operands[-2 if node.op == "aten.addmm" else 0].width


def graph_steps(group, graph, facts, backward):
    """Yields the work of each step of a group as it stands in the graph: of its parts, which are ops, and of its other nodes."""
    if not group.fusion:
        yield op_work(group, facts, backward)
        return
    covered = set()
    for op, shape, nodes in group.parts:
        yield op_work(group._replace(op=op, shape=shape), facts, backward)
        covered.update(nodes)
    for node in group.nodes:
        if node not in covered and not torch_patterns.passes_on(node):
            yield node_work(graph, node, backward)


def least_seconds(group, graph, facts, roofline, backward):
    """Returns the least seconds of a group as it stands in the graph, and as one op."""
    now = sum(work.seconds(roofline) for work in graph_steps(group, graph, facts, backward))
    return now, op_work(group, facts, backward).seconds(roofline)
