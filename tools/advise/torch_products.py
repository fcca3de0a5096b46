# SPDX-License-Identifier: MIT
"""Finds linear layers in a graph, with their activations, and those that could be one product."""
import typing

from torch_graph import Reference


class Product(typing.NamedTuple):
    nodes: tuple
    x: str  # the value that is multiplied, without its layout
    rows: int
    inputs: int
    outputs: int
    bias: bool
    result: str

    def shape(self, activation=""):
        """As LinearShape in kernels/linear/linear_shape.h writes it."""
        return f"{self.rows}x{self.inputs}->{self.outputs}{' ' + activation if activation else ''}{' bias' if self.bias else ''}"


class Products:
    """Makes the groups of linear layers in a grouping. `found` has all of them."""

    def __init__(self, grouping, activations):
        self.grouping, self.graph, self.matcher = grouping, grouping.graph, grouping.matcher
        self.found = [product for node in list(grouping.free.values()) if (product := self.product(node))]
        self.by_result = {product.result: product for product in self.found}
        merged = self.merge()
        ends = {each.x: each for each in activations if each.kind != "silu"}
        for product in self.found:
            if product in merged:
                continue
            end = ends.get(product.result)
            if end is not None and all(user in end.nodes for user in self.matcher.users(product.result)) and not self.matcher.is_result(product.result):
                activation = ((("activation", f"{product.rows}x{product.outputs} {end.kind}", tuple(end.nodes)),) if len(end.nodes) == 1 else ())
                grouping.take("linear", product.shape(end.kind), product.result, [*product.nodes, *end.nodes], "product + activation",
                              (("linear", product.shape(), product.nodes), *activation))  # fmt: skip
            else:
                grouping.take("linear", product.shape(), product.result, product.nodes, "", (("linear", product.shape(), product.nodes),))

    def product(self, node):
        """Returns the linear layer that begins with a node, or None."""
        given = [each for each in self.matcher.arguments(node) if isinstance(each, Reference)]
        if node.op == "aten.linear":
            x, weight, bias = given[0], given[1], len(given) > 2
        elif node.op == "aten.addmm" and len(given) == 3:
            x, weight, bias = given[1], given[2], True
        elif node.op in ("aten.matmul", "aten.mm") and len(given) == 2:
            x, weight, bias = given[0], given[1], False
        elif node.op == "aten.conv2d":
            return self.patches(node)
        else:
            return None
        if node.arguments.get("alpha", 1) != 1 or node.arguments.get("beta", 1) != 1 or not self.grouping.is_parameter(weight) or len(self.graph.tensors[weight].sizes) != 2:
            return None
        nodes, result = (node,), node.outputs[0]
        after = self.matcher.sole_user(result)
        if not bias and after is not None and after.op == "aten.add" and self.is_bias(after, result):
            nodes, result, bias = (node, after), after.outputs[0], True
        source, written = self.graph.tensors[x], self.graph.tensors[result]
        return Product(nodes, self.matcher.source(x), source.rows, source.width, written.width, bias, result)

    def is_bias(self, addition, result):
        others = [each for each in addition.references if self.matcher.source(each) != result]
        tensors = self.graph.tensors
        return len(others) == 1 and self.grouping.is_parameter(others[0]) and tensors[others[0]].sizes == (tensors[result].width,)

    def patches(self, node):
        """A convolution whose windows do not overlap is a product of patches."""
        weight, written = self.graph.tensors[node.arguments["weight"]], self.graph.tensors[node.outputs[0]]
        stride, padding = node.arguments.get("stride") or [1, 1], node.arguments.get("padding") or [0, 0]
        if not isinstance(stride, list) or tuple(stride) != weight.sizes[2:] or padding not in ([0, 0], [0], 0) or node.arguments.get("groups", 1) != 1:
            return None
        rows = written.count // max(1, written.sizes[1])
        return Product((node,), self.matcher.source(node.arguments["input"]), rows, weight.count // weight.sizes[0], weight.sizes[0],
                       bool(node.arguments.get("bias")), node.outputs[0])  # fmt: skip

    def merge(self):
        """Makes one group of the products of q, k and v of an attention, and another one of the products of a gate and its other half."""
        merged = []
        sets = [("products of q, k and v", [self.before(found, name) for name in (found.query, found.key, found.value)]) for found in self.grouping.attentions]
        sets += [("products of gate and up", list(gate)) for gate in self.grouping.gates]
        for fusion, results in sets:
            parts = [self.by_result[each] for each in dict.fromkeys(results) if each in self.by_result]
            parts = [part for part in parts if part.x == parts[0].x and part.bias == parts[0].bias and self.grouping.are_free(part.nodes)]
            if len(parts) < 2:
                continue
            whole = parts[0]._replace(outputs=sum(part.outputs for part in parts))
            if self.grouping.take("linear", whole.shape(), whole.result, [node for part in parts for node in part.nodes], fusion,
                                  [("linear", part.shape(), part.nodes) for part in parts]):  # fmt: skip
                merged += parts
        return merged

    def before(self, found, name):
        """Returns the value that becomes a query, key or value by another layout, a rotation, a norm or a factor."""
        for _ in range(8):
            name = self.matcher.source(name)
            node = self.graph.producers.get(name)
            if node is None or name in self.by_result:
                break
            rotated = self.grouping.rotation(name)
            if rotated:
                name = rotated[0]["x"]
            elif node.op in ("aten.rms_norm", "aten.layer_norm", "aten.mul", "aten.div"):
                name = node.first
            else:
                break
        return name
