# SPDX-License-Identifier: MIT
# Functions of cross_entropy that are compiled ahead of time. n rows, v classes; the gradient's elements are viewed as
# rows of c
from program import Program, same

ARGUMENTS = ("x[n,v]", "int64[n]", "float32[]", "host int64[]", "host float32[]")

PROGRAMS = [
    same("cross_entropy_gradient", ARGUMENTS, "v"),
    # Inductor removes what the loss does not need.
    Program("cross_entropy_loss", ARGUMENTS, "v", lambda f, *tensors: f.cross_entropy_gradient(*tensors)[0]),
    same("cross_entropy_backward", ("float32[]", "x[n,c]"), "c"),
]

# Widths of the proof's cases, of the shipped configurations and of tools/strata bench kernels.
GPU_WIDTHS = ["*", "c=16", "bfloat16:v=50304", "bfloat16:v=128256"]
