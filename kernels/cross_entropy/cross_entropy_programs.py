# SPDX-License-Identifier: MIT
# Functions of cross_entropy that are compiled ahead of time. n rows, v classes; the gradient's elements are viewed as
# rows of c
from program import LANES, Program, numbers, same

ARGUMENTS = ("x[n,v]", "int64[n]", "float32[]", "host int64[]", "host float32[]")

PROGRAMS = [
    same("cross_entropy_gradient", ARGUMENTS, "v"),
    # Inductor removes what the loss does not need.
    Program("cross_entropy_loss", ARGUMENTS, "v", lambda f, *tensors: f.cross_entropy_gradient(*tensors)[0]),
    same("cross_entropy_backward", ("float32[]", "x[n,c]"), "c"),
]


def loss(shape):  # "16x256", "16x128->256"
    return dict.fromkeys(("cross_entropy_gradient", "cross_entropy_loss"), {"v": numbers(shape)[-1]})


# linear_cross_entropy multiplies by the gradient of the loss itself.
CALLED_BY = {"cross_entropy": lambda shape: {**loss(shape), "cross_entropy_backward": LANES}, "linear_cross_entropy": loss}

# Widths of the proof's cases, of the shipped configurations and of tools/strata bench kernels.
GPU_WIDTHS = ["*", "c=16", "bfloat16:v=50304", "bfloat16:v=128256"]
