# SPDX-License-Identifier: MIT
# What adamw is compiled into ahead of time. The elements are seen as rows of c; x is the gradient's dtype
from program import same

STATE, SCALAR, OPTION = "float32[n,c]", "float32[]", "host float64[]"

PROGRAMS = [same("adamw", (STATE,) * 3 + ("x[n,c]",) + (SCALAR,) * 4 + (OPTION,) * 4, "c")]

# Of the cases of the proof and of the shipped configurations.
GPU_WIDTHS = ["*", "c=16"]
