# SPDX-License-Identifier: MIT
"""Program: a function of a package, its arguments, and the call of the op's formula file that is exported.

An argument is written "dtype[dimensions]". The dtype x stands for the package's dtype (of the activations); the prefix
`host` means a number in host memory. Dimensions are letters or numbers. A letter of `widths` is fixed when a package is
compiled, or any (`*`); every other letter may differ between calls.

An <op>_programs.py has PROGRAMS, and CALLED_BY with an entry for each op that calls some of them at level aot_inductor.
The entry takes the text of the op's shape (kernels/<op>/<op>_shape.h) and returns {function: {letter: size}}: all that
forward, backward and recomputation of such a call need.
"""
import re
from dataclasses import dataclass
from typing import Callable, Tuple

LANES = {"c": 16}  # kLanes of kernels/runtime/aot_inductor_runtime.h


@dataclass(frozen=True)
class Program:
    function: str
    arguments: Tuple[str, ...]
    widths: str  # letters of the dimensions that a package may fix
    call: Callable  # (formula module, *tensors) -> tensor or tuple of tensors
    gpu_widths: Tuple[str, ...] = ()  # replaces GPU_WIDTHS of its file
    exact: bool = False  # is for GPUs only, and for its own widths only: the rule `exact` of AotWidths


def same(function: str, arguments: Tuple[str, ...], widths: str, **others) -> Program:
    """Returns a program for a function of the formula file that needs no wrapper."""
    return Program(function, arguments, widths, lambda formula, *tensors: getattr(formula, function)(*tensors), **others)


def numbers(shape):
    """Returns the numbers of a shape: [16, 768, 3072] of "16x768->3072 gelu_tanh bias"."""
    return [int(number) for number in re.findall(r"\d+", shape)]


def with_heads(*functions):
    """Returns an entry of CALLED_BY for an op with shapes "8x1024 positions, 12 heads of 64" or "..., 32/8 heads of 128": a is
    the number of heads of query, key and value, and e half of a head's width."""

    def widths_of(shape):
        heads, *key_value_heads, head_width = numbers(shape)[2:]
        return dict.fromkeys(functions, {"a": heads + 2 * (key_value_heads or [heads])[0], "e": head_width // 2})

    return widths_of


def with_columns(letter, *functions):
    """Returns an entry of CALLED_BY for an op with shapes "16x768" whose functions have one width, the columns."""
    return lambda shape: dict.fromkeys(functions, {letter: numbers(shape)[1]})
