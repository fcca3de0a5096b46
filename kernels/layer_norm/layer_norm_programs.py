# SPDX-License-Identifier: MIT
# Functions of layer_norm.py that are compiled ahead of time. n rows, d width
from program import same, with_columns

ROW, WEIGHT, STATISTIC, EPS = "x[n,d]", "x[d]", "float32[n,1]", "host float32[]"

# No configuration uses this width; only the proof does.
OF_PROOF = ("*", "d=1000")

# The bias is always given: level aot_inductor passes zeros if an op has none.
PROGRAMS = [
    same("layer_norm_forward", (ROW, WEIGHT, WEIGHT, EPS), "d"),
    same("layer_norm_backward", (ROW, ROW, WEIGHT, STATISTIC, STATISTIC), "d"),
    same("add_layer_norm_forward", (ROW, ROW, WEIGHT, WEIGHT, EPS), "d"),
    same("add_layer_norm_backward", (ROW, ROW, ROW, WEIGHT, STATISTIC, STATISTIC), "d"),
    same("layer_norm_gelu_tanh_forward", (ROW, WEIGHT, WEIGHT, EPS), "d", gpu_widths=OF_PROOF),
    same("layer_norm_gelu_tanh_backward", (ROW, ROW, WEIGHT, WEIGHT, STATISTIC, STATISTIC), "d", gpu_widths=OF_PROOF),
]

PLAIN = ("layer_norm_forward", "layer_norm_backward")

# add_layer_norm is recomputed from its sum, and without a gradient of the sum its backward is the backward of layer_norm.
CALLED_BY = {
    "layer_norm": with_columns("d", *PLAIN),
    "add_layer_norm": with_columns("d", "add_layer_norm_forward", "add_layer_norm_backward", *PLAIN),
    "layer_norm_gelu_tanh": with_columns("d", "layer_norm_gelu_tanh_forward", "layer_norm_gelu_tanh_backward"),
}

# Widths of the proof's cases, of the shipped configurations and of tools/strata bench kernels.
GPU_WIDTHS = ["*", "d=1000", "bfloat16:d=768", "bfloat16:d=1600"]
