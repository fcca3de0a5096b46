# SPDX-License-Identifier: MIT
"""Finds attention in a graph: the operator of PyTorch, or two products with a softmax between."""
import typing

from torch_graph import Reference
from torch_patterns import DROPOUT, TRANSPOSING, passes_on

PRODUCTS = ("aten.matmul", "aten.bmm")
SOFTMAX = ("aten.softmax", "aten._softmax")


class Attention(typing.NamedTuple):
    """`masks` are pairs (kind, name): kind is hidden, shown or added. `problem` says why no op of Strata computes it, or is empty."""
    nodes: list
    query: str
    key: str
    value: str
    batch: int
    queries: int
    positions: int
    heads: int
    key_value_heads: int
    head_width: int
    masks: list
    causal: bool
    by_hand: bool
    problem: str

    @property
    def sizes_text(self):
        """As heads_text in kernels/runtime/op_shape.cc writes them."""
        shared = "" if self.heads == self.key_value_heads else f"/{self.key_value_heads}"
        return f"{self.batch}x{self.positions} positions, {self.heads}{shared} heads of {self.head_width}"


def attentions(matcher):
    """Yields every attention of the graph, in the order of its nodes."""
    for node in matcher.graph.nodes:
        if node.op == "aten.scaled_dot_product_attention":
            yield operator_attention(matcher, node)
        elif node.op in SOFTMAX and matcher.is_over_last(node) and (found := attention_by_hand(matcher, node)):
            yield found


def operator_attention(matcher, node):
    query, key, value = (node.arguments[name] for name in ("query", "key", "value"))
    mask, scale = node.arguments.get("attn_mask"), node.arguments.get("scale")
    masks = []
    if mask:
        masks = [("shown" if matcher.graph.tensors[mask].dtype == "bool" else "added", mask)]
    width = matcher.graph.tensors[query].width
    problem = problem_of(node.arguments.get("dropout_p") or 0, 1 if scale is None else scale * width**0.5)
    return described(matcher, [node], query, key, value, masks, bool(node.arguments.get("is_causal")), False, problem)


def attention_by_hand(matcher, softmax):
    """Returns the attention of a softmax, or None if it belongs to something else."""
    nodes, probability = [softmax], 0
    after = matcher.sole_user(softmax.outputs[0])
    if after is not None and after.op in DROPOUT:
        probability = after.arguments.get("p") or 0
        nodes.append(after)
        after = matcher.sole_user(after.outputs[0])
    used = matcher.users(softmax.outputs[0])
    returned = matcher.is_result(softmax.outputs[0]) or len(used) > 1
    after = after or next((user for user in used if user.op in PRODUCTS), None)
    if after is None or after.op not in PRODUCTS:
        return None
    if not follows(matcher, matcher.arguments(after)[0], nodes[-1].outputs[0]):
        return None
    nodes.append(after)
    masks, factor, name = [], 1, softmax.arguments["self"]
    if is_transposed(matcher, name):
        return None
    while (node := matcher.graph.producers.get(matcher.source(name))) is not None and node.op not in PRODUCTS:
        step = score_step(matcher, node)
        if step is None:
            return None
        name, multiplied, mask = step
        if is_transposed(matcher, name):
            return None
        factor *= multiplied
        masks += [mask] if mask else []
        nodes.append(node)
    if node is None:
        return None
    nodes.append(node)
    query, key = matcher.arguments(node)[:2]
    width = matcher.graph.tensors[query].width
    for side in (query, key):  # the factor may be applied to queries or to keys, before the product
        scaled = matcher.graph.producers.get(matcher.source(side))
        step = score_step(matcher, scaled) if scaled is not None and scaled.op in ("aten.mul", "aten.div") else None
        if step and step[1] != 1:
            factor *= step[1]
            nodes.append(scaled)
    why = problem_of(probability, factor * width**0.5) or ("the probabilities are used elsewhere too" if returned else "")
    return described(matcher, nodes, query, key, matcher.arguments(after)[1], masks, False, True, why)


def is_transposed(matcher, name):
    """Returns whether a value has another order of dimensions than what it is a layout of. Then the softmax is over queries."""
    passed = []
    matcher.source(name, passed)
    return any(node.op in TRANSPOSING for node in passed)


def follows(matcher, name, probabilities):
    """Returns whether a factor of a product is the probabilities, not transposed."""
    return matcher.source(name) == matcher.source(probabilities) and not is_transposed(matcher, name)


def score_step(matcher, node):
    """Returns (scores before, factor, mask or None) of a node between the product and the softmax, or None if it is something else."""
    given = matcher.arguments(node)
    if node.op in ("aten.mul", "aten.div") and len(given) == 2 and not isinstance(given[1], Reference) and given[1]:
        return given[0], given[1] if node.op == "aten.mul" else 1 / given[1], None
    if node.op == "aten.masked_fill":
        return node.arguments["self"], 1, ("hidden", node.arguments["mask"])
    if node.op == "aten.where" and len(given) == 3:
        sizes = [matcher.graph.tensors[each].count if isinstance(each, Reference) else 1 for each in given[1:]]
        return (given[1], 1, ("shown", given[0])) if sizes[0] > sizes[1] else (given[2], 1, ("hidden", given[0]))
    if node.op == "aten.add" and len(given) >= 2 and all(isinstance(each, Reference) for each in given[:2]):
        made = [has_product(matcher, each) for each in given[:2]]
        if made.count(True) == 1:
            return given[made.index(True)], 1, ("added", given[made.index(False)])
    return None


def has_product(matcher, name):
    """Returns whether a value is a product of two tensors, which masks and numbers may have changed."""
    for _ in range(8):
        node = matcher.graph.producers.get(matcher.source(name))
        if node is None or node.op in PRODUCTS:
            return node is not None
        before = next(node.references, None) if node.op in ("aten.mul", "aten.div", "aten.masked_fill") else None
        if before is None:
            return False
        name = before
    return False


def problem_of(dropout, scale):
    if dropout:
        return f"dropout {dropout:g} of probabilities, which no op of Strata has"
    if not abs(scale - 1) <= 1e-3:  # also not a number
        return f"scores are {scale:g} times as large as in Strata, which divides by the root of the width of a head"
    return ""


def described(matcher, nodes, query, key, value, masks, causal, by_hand, problem):
    tensors = matcher.graph.tensors
    rows, width = tensors[query].sizes[-2:]
    positions = tensors[value].sizes[-2]
    batch, heads = heads_of(matcher, query)
    least = smallest_count(matcher, value)
    shared = least // max(1, batch * positions * tensors[value].width)
    shared = shared if 0 < shared <= heads and heads % shared == 0 else heads
    if not problem and rows != positions:
        problem = f"{rows} queries see {positions} keys, and op attention has as many of both"
    if not problem and tensors[value].width != width:
        problem = f"values are {tensors[value].width} wide and queries {width}"
    return Attention(nodes, query, key, value, batch, rows, positions, heads, shared, width, masks, causal, by_hand, problem)


def heads_of(matcher, name):
    """Returns (batch, heads). A product of three dimensions has both in one, and then the values before it tell them apart."""
    passed = []
    base = matcher.source(name, passed)
    sizes = matcher.graph.tensors[name].sizes
    if len(sizes) == 4:
        return sizes[0], sizes[1]
    joined, positions, width = sizes if len(sizes) == 3 else (1, *sizes[-2:])
    for each in [base, *(output for node in passed for output in node.outputs)]:
        wider = matcher.graph.tensors[each].sizes
        if len(wider) == 4 and joined * positions * width == matcher.graph.tensors[each].count and wider[-1] == width and positions in wider[1:3]:
            return wider[0], joined // max(1, wider[0])
    return joined, 1


def smallest_count(matcher, name):
    """Returns the fewest elements that a value has in one of its layouts: heads that are shared are expanded."""
    tensors, least = matcher.graph.tensors, matcher.graph.tensors[name].count
    while (node := matcher.graph.producers.get(name)) is not None and passes_on(node) and (before := next(node.references, None)) is not None:
        least, name = min(least, tensors[before].count), before
    return least
