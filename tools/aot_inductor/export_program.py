# SPDX-License-Identifier: MIT
"""Exports the graph of a program with dynamic dimensions, on the CPU or moved to a GPU, which need not exist."""
import re

import torch
from torch.export import Dim, export
from torch.export.passes import move_to_device_pass

# Sizes of the free dimensions in the export. Inductor uses them as hints for its tiling, for example for the number of
# programs that share a sum over rows. All sizes differ, so that no two dimensions are taken for the same one.
HINTS = {
    "n": 32768, "d": 1032, "f": 2056, "v": 3080, "i": 776, "o": 3096, "b": 6, "t": 520, "a": 36, "k": 4, "g": 5, "e": 40, "c": 48,
    "s": 8, "r": 7, "m": 44,
}  # fmt: skip
INDEX_LIMIT = 2**31 - 1  # 32-bit indexing: no tensor of a package has more elements


class Argument:
    """Parses an argument such as "host float32[]" or "x[n,d]" into its place, dtype and dimensions."""

    def __init__(self, text):
        where, dtype, dimensions = re.fullmatch(r"(host )?(\w+)\[([\w,*]*)\]", text).groups()
        self.on_host, self.dtype = where is not None, dtype
        self.dimensions = [name for name in dimensions.split(",") if name]

    def example(self, dtype, sizes):
        kind = dtype if self.dtype == "x" else getattr(torch, self.dtype)
        shape = [int(name) if name.isdigit() else sizes[name] for name in self.dimensions]
        return torch.empty(shape, dtype=kind)  # its values are not read


class _Call(torch.nn.Module):
    def __init__(self, program, formula):
        super().__init__()
        self.program, self.formula = program, formula

    def forward(self, *tensors):
        return self.program.call(self.formula, *tensors)


def export_program(program, formula, dtype, widths, on_gpu):
    """Exports the graph of a program. `widths` maps each fixed letter to its size."""
    arguments = [Argument(text) for text in program.arguments]
    sizes = {**HINTS, **widths}
    free = {name for argument in arguments for name in argument.dimensions if not name.isdigit() and name not in widths}
    fixed = 1
    for size in widths.values():
        fixed *= size
    largest = INDEX_LIMIT // fixed
    sizes.update({name: largest // 8 * 8 for name in free if sizes[name] > largest})
    dims = {name: Dim(name, min=2, max=largest) for name in free}
    examples = tuple(argument.example(dtype, sizes) for argument in arguments)
    shapes = tuple(
        {i: dims[name] for i, name in enumerate(argument.dimensions) if name in dims} or None for argument in arguments
    )
    exported = export(_Call(program, formula), examples, dynamic_shapes=(shapes,), strict=False)
    return _on_gpu(exported, arguments) if on_gpu else exported


def _on_gpu(exported, arguments):
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    mode = placeholders[0].meta["val"].fake_mode
    (examples, keywords), exported._example_inputs = exported._example_inputs, None
    with mode:
        exported = move_to_device_pass(exported, "cuda:0")
        placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
        moved = []
        for argument, node, example in zip(arguments, placeholders, examples):
            example = mode.from_tensor(example, static_shapes=True)
            if argument.on_host:
                node.meta["val"] = node.meta["val"].cpu()
            else:
                example = example.to("cuda:0")
            moved.append(example)
        exported._example_inputs = (tuple(moved), keywords)
    return exported
