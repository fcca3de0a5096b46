# SPDX-License-Identifier: MIT
"""Finds formulas that a graph has as several nodes, by patterns.

A pattern is a name for any value ("x"), a number, or a tuple of an operator and the patterns of its arguments. The operator may be
several with | between. Nodes that compute nothing, such as views and casts, are passed over."""
import math

from torch_graph import Reference

# They give the same numbers in another order, type or place.
LAYOUT = frozenset("aten." + name for name in """view reshape _unsafe_view transpose permute t numpy_T mT contiguous clone alias detach expand unsqueeze
    squeeze slice select split split_with_sizes chunk unflatten flatten unbind narrow movedim swapaxes view_as expand_as to _to_copy type_as
    lift_fresh_copy lift_fresh _assert_tensor_metadata""".split()) | {"_operator.getitem"}  # fmt: skip
TRANSPOSING = frozenset("aten." + name for name in "transpose permute t numpy_T mT movedim swapaxes".split())
DROPOUT = ("aten.dropout", "aten.native_dropout")
ANY_ORDER = ("aten.add", "aten.mul")
WITHIN = 1e-3  # of a number of a pattern

GELU_TANH = ("mul", ("mul", "x", 0.5), ("add", ("tanh", ("mul", ("add", "x", ("mul", ("pow", "x", 3), 0.044715)), math.sqrt(2 / math.pi))), 1))
GELU = ("mul", ("mul", "x", 0.5), ("add", ("erf", ("div", "x", math.sqrt(2))), 1))
SILU = ("mul", "x", ("sigmoid", "x"))
RMS_NORM = ("mul", ("mul", "x", ("rsqrt", ("add", ("mean", ("pow", "x", 2)), "eps"))), "weight")
ROTARY = ("add", ("mul", "x", "cosine"), ("mul", ("cat", ("neg", "x"), "x"), "sine"))


def passes_on(node):
    """Returns whether a node computes nothing: another layout, or dropout at evaluation."""
    return node.op in LAYOUT or node.op in DROPOUT and not (node.arguments.get("train", True) and node.arguments.get("p"))


class Matcher:
    def __init__(self, graph):
        self.graph = graph

    def source(self, name, passed=None):
        """Returns the value that `name` is another layout of, and appends the nodes between to `passed`."""
        while (node := self.graph.producers.get(name)) and passes_on(node) and (before := next(node.references, None)) is not None:
            if passed is not None:
                passed.append(node)
            name = before
        return name

    def users(self, name):
        """Returns the nodes that compute with a value, or with another layout of it, each once."""
        found, seen, waiting = {}, {name}, [name]
        while waiting:
            for node in self.graph.users.get(waiting.pop(), ()):
                if not passes_on(node):
                    found[node.name] = node
                    continue
                waiting += [output for output in dict.fromkeys(node.outputs) if output not in seen]
                seen.update(node.outputs)
        return list(found.values())

    def sole_user(self, name):
        """Returns the only node that computes with a value which is no result of the graph, or None."""
        found = self.users(name)
        return found[0] if len(found) == 1 and not self.is_result(name) else None

    def is_result(self, name):
        return any(self.source(output) == name for output in self.graph.outputs)

    def arguments(self, node):
        """Returns tensors and numbers in their order. Other arguments, such as a dimension, say nothing about the formula."""
        values = []
        for name in node.positional:
            value = node.arguments[name]
            values += value if isinstance(value, list) and any(isinstance(each, Reference) for each in value) else [value]
        return [value for value in values if isinstance(value, Reference) or isinstance(value, (int, float)) and not isinstance(value, bool)]

    def is_over_last(self, node):
        """Returns whether a node such as a softmax or a mean goes over the last dimension alone."""
        dimension, rank = node.arguments.get("dim"), len(self.graph.tensors[node.first].sizes)
        return dimension in (-1, rank - 1, [-1], [rank - 1])

    def half(self, name):
        """Returns (value, 0 or 1) if `name` is the first or second half of its last dimension, or None."""
        node = self.graph.producers.get(name)
        while node is not None and node.op in ("aten.contiguous", "aten.clone", "aten.to", "aten._to_copy"):
            name = node.first
            node = self.graph.producers.get(name)
        if node is None or node.op not in ("aten.slice", "aten.chunk", "aten.split", "aten.narrow") or not self.is_over_last(node):
            return None
        whole = self.graph.tensors[node.first].width
        if self.graph.tensors[name].width * 2 != whole:
            return None
        if node.op == "aten.slice" and node.arguments.get("step", 1) != 1:
            return None
        start = node.arguments.get("start") or 0 if node.op in ("aten.slice", "aten.narrow") else node.outputs.index(name) * whole // 2
        place = {0: 0, whole // 2: 1, -whole // 2: 1}.get(start)
        return None if place is None else (self.source(node.first), place)

    def is_rotated(self, cat):
        """Returns whether a node is [-second half, first half], as the rotation of Strata pairs features."""
        negative, other = cat.arguments["tensors"] if isinstance(cat.arguments.get("tensors"), list) and len(cat.arguments["tensors"]) == 2 else (None, None)
        negation = self.graph.producers.get(negative)
        if negation is None or negation.op != "aten.neg" or cat.arguments.get("dim") not in (-1, len(self.graph.tensors[cat.outputs[0]].sizes) - 1):
            return False
        halves = self.half(negation.first), self.half(other)
        return all(halves) and halves[0][0] == halves[1][0] and (halves[0][1], halves[1][1]) == (1, 0)

    def match(self, pattern, name):
        """Returns (values by their names in the pattern, nodes that it has), or None. What other nodes use or the graph returns is no value
        inside of a formula, because it is written anyway."""
        found = self.matched(pattern, Reference(name), {}, ())
        if not found:
            return None
        values, nodes = found[0], list(dict.fromkeys(found[1]))
        inside = [output for node in nodes if self.source(name) not in node.outputs for output in node.outputs]
        names = {node.name for node in nodes}
        if any(self.is_result(each) or not names.issuperset(user.name for user in self.users(each)) for each in inside):
            return None
        return values, nodes

    def matched(self, pattern, value, values, nodes):
        if isinstance(pattern, (int, float)):
            is_number = isinstance(value, (int, float)) and math.isclose(value, pattern, rel_tol=WITHIN)
            return (values, nodes) if is_number else None
        if isinstance(pattern, str):
            base = self.source(value) if isinstance(value, Reference) else value
            return ({**values, pattern: base}, nodes) if values.get(pattern, base) == base else None
        if not isinstance(value, Reference):
            return None
        node = self.graph.producers.get(self.source(value))
        if node is None or node.op not in {"aten." + name for name in pattern[0].split("|")}:
            return None
        if node.arguments.get("alpha", 1) != 1 or node.op == "aten.mean" and not self.is_over_last(node) or node.op == "aten.cat" and not self.is_rotated(node):
            return None
        given, wanted = self.arguments(node), pattern[1:]
        if len(given) < len(wanted):
            return None
        for order in [given[:len(wanted)], given[:2][::-1]] if node.op in ANY_ORDER else [given[:len(wanted)]]:
            found = (values, (*nodes, node))
            for part, each in zip(wanted, order):
                found = found and self.matched(part, each, *found)
            if found:
                return found
        return None
