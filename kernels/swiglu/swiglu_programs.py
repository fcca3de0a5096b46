# SPDX-License-Identifier: MIT
# Functions of swiglu that are compiled ahead of time, one per kind of gate and direction. n rows, f width of each half
from program import Program, numbers

NAMES = {"silu": "swiglu", "gelu_tanh": "geglu"}


def forward(kind):
    return Program(f"{NAMES[kind]}_forward", ("x[n,2,f]",), "f", lambda formula, gate_up: formula.swiglu(gate_up.flatten(1), kind))


def backward(kind):
    return Program(
        f"{NAMES[kind]}_backward",
        ("x[n,f]", "x[n,2,f]"),
        "f",
        lambda formula, grad_y, gate_up: formula.swiglu_backward(grad_y, gate_up.flatten(1), kind),
    )


PROGRAMS = [make(kind) for kind in NAMES for make in (forward, backward)]


def functions_of_kind(shape):  # "16x768", or "16x768 gelu_tanh"
    name = NAMES["gelu_tanh" if shape.endswith(" gelu_tanh") else "silu"]
    return dict.fromkeys((f"{name}_forward", f"{name}_backward"), {"f": numbers(shape)[1]})


CALLED_BY = {"swiglu": functions_of_kind}

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "f=1000", "bfloat16:f=8192", "bfloat16:f=14336"]
