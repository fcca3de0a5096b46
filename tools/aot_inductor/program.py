# SPDX-License-Identifier: MIT
"""Program: a function that an op is compiled into, its arguments, and the call of the op's formula file that is traced.

An argument is written "dtype[dimensions]". The dtype x is that of the package (of the activations); `host` in front means
a number that stays in the host's memory. Dimensions are letters or numbers. A letter of `widths` is fixed when a package
is made, or any (`*`); every other letter is free from call to call.
"""
from dataclasses import dataclass
from typing import Callable, Tuple


@dataclass(frozen=True)
class Program:
    function: str
    arguments: Tuple[str, ...]
    widths: str  # its letters
    call: Callable  # (formula module, *tensors) -> tensor or tuple of tensors
    gpu_widths: Tuple[str, ...] = ()  # instead of GPU_WIDTHS of its file


def same(function: str, arguments: Tuple[str, ...], widths: str, **others) -> Program:
    """A function of the formula file as it is."""
    return Program(function, arguments, widths, lambda formula, *tensors: getattr(formula, function)(*tensors), **others)
