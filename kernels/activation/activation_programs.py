# SPDX-License-Identifier: MIT
# Functions of activation that are compiled ahead of time, one per kind and direction. The elements are viewed as rows
# of c.
from program import Program


def forward(kind):
    return Program(f"{kind}_forward", ("x[n,c]",), "c", lambda formula, x: formula.activation(x, kind))


def backward(kind):
    return Program(
        f"{kind}_backward", ("x[n,c]",) * 2, "c", lambda formula, grad_y, x: formula.activation_backward(grad_y, x, kind)
    )


PROGRAMS = [make(kind) for kind in ("gelu", "gelu_tanh", "relu", "silu") for make in (forward, backward)]

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "c=16"]
