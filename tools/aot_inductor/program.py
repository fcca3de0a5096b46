# SPDX-License-Identifier: MIT
"""Program: a function of a package, its arguments, and the call of the op's formula file that is traced.

An argument is written "dtype[dimensions]". The dtype x stands for the package's dtype (of the activations); the prefix
`host` means a number in host memory. Dimensions are letters or numbers. A letter of `widths` is fixed when a package is
compiled, or any (`*`); every other letter may differ between calls.
"""
from dataclasses import dataclass
from typing import Callable, Tuple


@dataclass(frozen=True)
class Program:
    function: str
    arguments: Tuple[str, ...]
    widths: str  # letters of the dimensions that a package may fix
    call: Callable  # (formula module, *tensors) -> tensor or tuple of tensors
    gpu_widths: Tuple[str, ...] = ()  # replaces GPU_WIDTHS of its file


def same(function: str, arguments: Tuple[str, ...], widths: str, **others) -> Program:
    """Returns a program for a function of the formula file that needs no wrapper."""
    return Program(function, arguments, widths, lambda formula, *tensors: getattr(formula, function)(*tensors), **others)
