# SPDX-License-Identifier: MIT
# Functions of rms_norm and add_rms_norm that are compiled ahead of time. n rows, d width
from program import same, with_columns

ROW, WEIGHT, RSTD, EPS = "x[n,d]", "x[d]", "float32[n,1]", "host float32[]"

PROGRAMS = [
    same("rms_norm_forward", (ROW, WEIGHT, EPS), "d"),
    same("rms_norm_backward", (ROW, ROW, WEIGHT, RSTD), "d"),
    same("add_rms_norm_forward", (ROW, ROW, WEIGHT, EPS), "d"),
    same("add_rms_norm_backward", (ROW, ROW, ROW, WEIGHT, RSTD), "d"),
]

PLAIN = ("rms_norm_forward", "rms_norm_backward")

# add_rms_norm is recomputed from its sum, and without a gradient of the sum its backward is the backward of rms_norm.
CALLED_BY = {
    "rms_norm": with_columns("d", *PLAIN),
    "add_rms_norm": with_columns("d", "add_rms_norm_forward", "add_rms_norm_backward", *PLAIN),
}

# Widths of the proof's cases, of the shipped configurations and of tools/strata bench kernels.
GPU_WIDTHS = ["*", "d=1000", "bfloat16:d=2048", "bfloat16:d=4096", "bfloat16:d=8192"]
