# SPDX-License-Identifier: MIT
# Functions of swiglu that are compiled ahead of time. n rows, f width of each half
from program import Program, with_columns

PROGRAMS = [
    Program("swiglu_forward", ("x[n,2,f]",), "f", lambda formula, gate_up: formula.swiglu(gate_up.flatten(1))),
    Program(
        "swiglu_backward",
        ("x[n,f]", "x[n,2,f]"),
        "f",
        lambda formula, grad_y, gate_up: formula.swiglu_backward(grad_y, gate_up.flatten(1)),
    ),
]

CALLED_BY = {"swiglu": with_columns("f", "swiglu_forward", "swiglu_backward")}

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "f=1000", "bfloat16:f=8192", "bfloat16:f=14336"]
