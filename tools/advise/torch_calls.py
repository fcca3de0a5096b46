# SPDX-License-Identifier: MIT
"""Runs nodes of a graph by PyTorch: only operators of a list, none of which reads files or calls code of others."""
import math

import torch

from torch_graph import Reference

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64, "int64": torch.int64, "int32": torch.int32,
          "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool}  # fmt: skip
NUMBERS = {1: torch.uint8, 2: torch.int8, 3: torch.int16, 4: torch.int32, 5: torch.int64, 6: torch.float16, 7: torch.float32, 8: torch.float64,
           12: torch.bool, 13: torch.bfloat16}  # fmt: skip
RUN = frozenset("aten." + name for name in """view reshape _unsafe_view transpose permute t numpy_T mT contiguous clone alias detach expand unsqueeze squeeze
    slice select split split_with_sizes chunk unflatten flatten unbind narrow movedim swapaxes view_as expand_as to _to_copy type_as lift_fresh_copy
    add sub mul div neg pow sqrt rsqrt reciprocal exp log abs sin cos tanh sigmoid erf relu gelu silu leaky_relu softplus clamp maximum minimum
    softmax _softmax log_softmax _log_softmax cross_entropy_loss nll_loss_forward layer_norm native_layer_norm rms_norm linear matmul mm bmm addmm
    scaled_dot_product_attention embedding dropout native_dropout masked_fill where cat stack mean sum var amax eq ne lt le gt ge logical_not
    logical_and logical_or bitwise_not bitwise_and bitwise_or tril triu ones zeros full ones_like zeros_like full_like arange scalar_tensor
    conv2d convolution batch_norm group_norm max_pool2d adaptive_avg_pool2d avg_pool2d rsub""".split())  # fmt: skip
MOST_ELEMENTS, MOST_TOGETHER = 1 << 26, 1 << 29  # of a constant, and of all that it is made of
# Operators that make the values of a mask from nothing.
SOURCES = frozenset("aten." + name for name in "ones zeros full arange scalar_tensor".split())


def can_run(node):
    return node.op in RUN or node.op == "_operator.getitem"


def call(node, values, device="cpu"):
    """Runs a node on `values`, which have tensors of the device by their names, and adds its results."""
    if node.op == "aten._assert_tensor_metadata":
        return
    if not can_run(node):
        raise ValueError(f"{node.op} is not in the list of operators that are run")

    def given(name):
        value = node.arguments[name]
        if isinstance(value, list):
            return [values[each] if isinstance(each, Reference) else each for each in value]
        if isinstance(value, Reference):
            return values[value]
        return NUMBERS[value] if name == "dtype" and isinstance(value, int) else value

    positional = [given(name) for name in node.positional]
    others = {name: given(name) for name in node.arguments if name not in node.positional and name not in ("device", "layout", "memory_format", "pin_memory")}
    if node.op in SOURCES:
        others["device"] = device
    results = getattr(getattr(torch.ops.aten, node.op.removeprefix("aten.")), node.overload)(*positional, **others)
    if len(node.outputs) == 1 and not isinstance(results, (list, tuple)):
        values[node.outputs[0]] = results
    else:
        values.update(zip(node.outputs, results))


def check_sizes(graph, nodes, inputs):
    """Runs nodes without memory for their values. Raises ValueError if a result has another size than the graph says, which a damaged file
    may have: the memory of a run is bounded by the sizes of the graph."""
    values = {name: torch.empty(graph.tensors[name].sizes, dtype=DTYPES[graph.tensors[name].dtype], device="meta") for name in inputs}
    for node in nodes:
        call(node, values, "meta")
        for name in node.outputs:
            if isinstance(values.get(name), torch.Tensor) and tuple(values[name].shape) != graph.tensors[name].sizes:
                raise ValueError(f"{node.name} has a result of {tuple(values[name].shape)}, and the graph says {graph.tensors[name].sizes}")


def constant(graph, name):
    """Returns a value that no input and no parameter changes and that is not too large, or None."""
    needed, waiting, elements = set(), [name], 0
    while waiting:
        each = waiting.pop()
        if each in needed or each in graph.constants:
            continue
        node = graph.producers.get(each)
        if node is None or not is_constant(graph, node):
            return None
        elements += sum(graph.tensors[output].count for output in node.outputs)
        if elements > MOST_TOGETHER:
            return None
        needed.update(node.outputs)
        waiting += node.references
    nodes = [node for node in graph.nodes if needed.intersection(node.outputs)]  # in the order of their calls
    used = {each for node in nodes for each in node.references if each in graph.constants}
    values = {each: stored(graph, each) for each in used | graph.constants.keys() & {name}}
    try:
        check_sizes(graph, nodes, values)
        for node in nodes:
            call(node, values)
    except (KeyError, RuntimeError, TypeError, ValueError, AttributeError):  # a damaged graph
        return None
    return values.get(name)


def is_constant(graph, node):
    """Returns whether a node makes the same small value in each call, if its arguments are the same."""
    sizes = node.arguments.get("size", ())
    counts = [graph.tensors[output].count for output in node.outputs if output in graph.tensors]
    counts.append(math.prod(each for each in sizes if isinstance(each, int)) if isinstance(sizes, list) else 1)
    is_source = not any(True for _ in node.references)
    return can_run(node) and "dropout" not in node.op and max(counts) <= MOST_ELEMENTS and (not is_source or node.op in SOURCES)


def stored(graph, name):
    tensor = graph.tensors[name]
    return torch.frombuffer(bytearray(graph.constants[name]), dtype=DTYPES[tensor.dtype]).reshape(tensor.sizes)
