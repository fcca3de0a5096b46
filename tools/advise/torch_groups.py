# SPDX-License-Identifier: MIT
"""Which nodes of a graph are which op of Strata. Nodes that are one op are a group; what belongs to none is outside."""
import typing

import torch_calls
import torch_masks
import torch_patterns
from torch_attention import attentions
from torch_graph import DAMAGE, Reference
from torch_products import Products

DTYPES = ("fp32", "bf16", "fp16")  # of ops
LOSSES = ("aten.nll_loss", "aten.nll_loss_nd", "aten.nll_loss_forward")
# What several nodes of a group are, and why they are one op in Strata.
FUSIONS = {
    "addition + norm": "the sum is written and read once",
    "product + activation": "the activation is the end of the product, which writes its result once",
    "products of q, k and v": "one product reads the input once",
    "products of gate and up": "one product reads the input once",
    "gate of two nodes": "gate and up are read once, and their activation is not written",
    "attention with scores in memory": "levels that compute in tiles write no scores to memory",
    "formula by hand": "one op reads its input once and writes only its result",
    "output layer + loss": "the complete logits are never in memory",
}  # fmt: skip


def grouped(graph):
    """Returns the Grouping of a graph. A graph whose nodes lack arguments, or have others, is refused as damaged."""
    try:
        return Grouping(graph)
    except (*DAMAGE, RuntimeError) as bad:  # RuntimeError: PyTorch refuses a mask
        raise graph.damaged(bad) from None


class Group(typing.NamedTuple):
    """Nodes that are one op of Strata. `parts` are op, shape and nodes of what the graph has as ops already; nodes of no part are
    counted by the tensors that they read and write. `note` says what the op does not compute."""
    op: str
    shape: str
    dtype: str
    nodes: tuple
    fusion: str = ""
    parts: tuple = ()
    note: str = ""

    @property
    def key(self):
        return self.op, self.shape, self.dtype, self.fusion, self.note, tuple(sorted(node.op for node in self.nodes))


class Activation(typing.NamedTuple):
    kind: str
    x: str
    nodes: list
    output: str


class Grouping:
    """`groups` in the order of the graph, and `outside`: nodes that compute and are no op of Strata, by name."""

    def __init__(self, graph):
        self.graph, self.matcher = graph, torch_patterns.Matcher(graph)
        self.free = {node.name: node for node in graph.nodes if not torch_patterns.passes_on(node)}
        self.groups = []
        self.refused = {}  # name of a node -> why the op that it is like does not compute it
        self.attentions = [found for found in attentions(self.matcher) if self.take_attention(found)]
        self.take_rotary()
        self.take_norms()
        self.take_gates()
        activations = [each for each in self.activations() if self.are_free(each.nodes)]
        Products(self, activations)
        for each in activations:
            self.take("activation", f"{self.rows(each.x)} {each.kind}", each.x, each.nodes, "formula by hand" if len(each.nodes) > 1 else "")
        self.take_others()
        for node in self.constant_nodes():
            self.free.pop(node.name, None)
        self.outside = self.free
        order = {node.name: place for place, node in enumerate(graph.nodes)}
        self.groups.sort(key=lambda group: min(order[node.name] for node in group.nodes))

    def tensor(self, name):
        return self.graph.tensors[name]

    def rows(self, name):
        return f"{self.tensor(name).rows}x{self.tensor(name).width}"

    def are_free(self, nodes):
        return all(node.name in self.free for node in nodes)

    def take(self, op, shape, name, nodes, fusion="", parts=(), note=""):
        """Makes a group of nodes, unless one of them is another group's."""
        if self.tensor(name).dtype not in DTYPES:
            self.refused.update((node.name, f"no op of Strata has type {self.tensor(name).dtype}") for node in nodes)
        elif self.are_free(nodes):
            for node in nodes:
                del self.free[node.name]
            self.groups.append(Group(op, shape, self.tensor(name).dtype, tuple(nodes), fusion, tuple(parts), note))
            return True
        return False

    def take_attention(self, found):
        pattern, note = "causal" if found.causal else "full", found.problem
        tables = [torch_masks.visible_pairs(self.graph, found, *mask) for mask in found.masks]
        if not note and any(table is None for table in tables):
            given = any(self.matcher.source(name) in self.graph.inputs for _, name in found.masks)
            note = "a mask that is given with the input" if given else "a mask, or a term of the scores, that is no constant pattern"
        elif not note and tables:
            table = tables[0]
            for other in tables[1:]:
                table = table & other
            pattern = torch_masks.pattern_of(table)
            note = "" if pattern else "a mask that is none of the patterns causal, full, window and prefix"
        if note:
            self.refused.update((node.name, note) for node in found.nodes)
            return False
        in_memory = found.by_hand or bool(found.masks)
        return self.take("attention", f"{found.sizes_text}, {pattern}", found.query, found.nodes, "attention with scores in memory" if in_memory else "")

    def take_rotary(self):
        """Queries and keys of an attention are rotated by one op."""
        for found in self.attentions:
            rotated = [self.rotation(found.query), self.rotation(found.key)]
            if all(rotated):
                nodes = list(dict.fromkeys(rotated[0][1] + rotated[1][1]))
                self.take("rotary", found.sizes_text, found.query, nodes, "formula by hand")

    def rotation(self, name):
        return self.matcher.match(torch_patterns.ROTARY, name)

    def take_norms(self):
        for node in list(self.free.values()):
            if node.op in ("aten.layer_norm", "aten.native_layer_norm", "aten.rms_norm"):
                self.take_norm(node, "rms_norm" if node.op == "aten.rms_norm" else "layer_norm")
            elif node.op == "aten.mul" and self.are_free([node]) and (found := self.matcher.match(torch_patterns.RMS_NORM, node.outputs[0])):
                values, nodes = found
                if self.is_parameter(values["weight"]) and self.tensor(values["weight"]).count == self.tensor(values["x"]).width:
                    self.take_with_addition("rms_norm", values["x"], nodes, "", True)

    def take_norm(self, node, op):
        x, weight = node.first, node.arguments.get("weight")
        if len(node.arguments["normalized_shape"]) != 1 or not weight:
            self.refused[node.name] = f"op {op} has a weight and is over the last dimension"
            return
        self.take_with_addition(op, x, [node], " bias" if node.arguments.get("bias") else "", False)

    def take_with_addition(self, op, x, nodes, bias, by_hand):
        addition, shape = self.graph.producers.get(self.matcher.source(x)), self.rows(x) + bias
        is_plain = addition is not None and addition.op == "aten.add" and addition.arguments.get("alpha", 1) == 1
        given = self.matcher.arguments(addition)[:2] if is_plain else []
        both = len(given) == 2 and all(isinstance(each, Reference) and self.tensor(each).sizes == self.tensor(x).sizes for each in given)
        if both and addition.name in self.free:
            self.take(f"add_{op}", shape, x, [addition, *nodes], "addition + norm", () if by_hand else ((op, shape, tuple(nodes)),))
        else:
            self.take(op, shape, x, nodes, "formula by hand" if by_hand else "")

    def is_parameter(self, name):
        return self.matcher.source(name) in self.graph.parameters

    def activations(self):
        for node in self.free.values():
            if node.op in ("aten.gelu", "aten.relu", "aten.silu"):
                kind = "gelu_tanh" if node.arguments.get("approximate") == "tanh" else node.op.removeprefix("aten.")
                yield Activation(kind, self.matcher.source(node.first), [node], node.outputs[0])
            elif node.op == "aten.mul":
                for kind, pattern in (("gelu_tanh", torch_patterns.GELU_TANH), ("gelu", torch_patterns.GELU), ("silu", torch_patterns.SILU)):
                    if found := self.matcher.match(pattern, node.outputs[0]):
                        yield Activation(kind, found[0]["x"], found[1], node.outputs[0])

    def take_gates(self):
        """mul(silu(gate), up), or with gelu_tanh."""
        self.gates = []
        for each in [each for each in self.activations() if each.kind in ("silu", "gelu_tanh")]:
            product = self.matcher.sole_user(each.output)
            if product is None or product.op != "aten.mul" or product in each.nodes:
                continue
            up = next((name for name in product.references if self.matcher.source(name) != each.output), None)
            if up is None or self.tensor(up).sizes != self.tensor(each.x).sizes:
                continue
            shape = self.rows(each.x) + ("" if each.kind == "silu" else f" {each.kind}")
            parts = ((("activation", f"{self.rows(each.x)} {each.kind}", tuple(each.nodes)),) if len(each.nodes) == 1 else ())
            if self.take("swiglu", shape, each.x, [*each.nodes, product], "gate of two nodes", parts):
                self.gates.append((each.x, self.matcher.source(up)))

    def take_others(self):
        for node in list(self.free.values()):
            if node.op == "aten.embedding":
                table = self.tensor(node.arguments["weight"])
                rows = self.tensor(node.arguments["indices"]).count
                self.take("embedding", f"{rows}x{table.width} of {table.sizes[0]}", node.outputs[0], [node])
            elif node.op in torch_patterns.DROPOUT:
                self.take("dropout", self.rows(node.outputs[0]), node.outputs[0], [node])
            elif node.op == "aten.cross_entropy_loss":
                self.take_loss(node, node.arguments["self"], [node])
            elif node.op in LOSSES:
                before = self.graph.producers.get(self.matcher.source(node.arguments["self"]))
                is_softmax = before is not None and before.op in ("aten.log_softmax", "aten._log_softmax") and self.matcher.is_over_last(before)
                if is_softmax and self.matcher.sole_user(before.outputs[0]) is node:
                    self.take_loss(node, before.arguments["self"], [before, node])

    def take_loss(self, node, logits, nodes):
        targets = self.tensor(node.arguments["target"])
        if node.arguments.get("reduction", 1) == 0:
            self.refused[node.name] = "op cross_entropy has the sum or the mean of the losses, and not each"
        elif node.arguments.get("weight") or targets.dtype != "int64" or len(self.tensor(logits).sizes) != 2:
            self.refused[node.name] = "op cross_entropy has logits of two dimensions, targets of int64 and no weights of classes"
        else:
            self.take("cross_entropy", self.rows(logits), logits, nodes, "formula by hand" if len(nodes) > 1 else "")

    def constant_nodes(self):
        """Nodes that compute the same in each call, such as a mask or positions, from nothing or from buffers."""
        constant = set(self.graph.buffers)
        for node in self.graph.nodes:
            is_source = node.op in torch_calls.SOURCES or any(True for _ in node.references)
            if is_source and torch_calls.can_run(node) and node.op not in torch_patterns.DROPOUT and constant.issuperset(node.references):
                constant.update(node.outputs)
                yield node

