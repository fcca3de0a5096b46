# SPDX-License-Identifier: MIT
# The function of adamw that is compiled ahead of time. The elements are viewed as rows of c; x is the gradient's dtype
from program import LANES, same

STATE, SCALAR, OPTION = "float32[n,c]", "float32[]", "host float64[]"

PROGRAMS = [same("adamw", (STATE,) * 3 + ("x[n,c]",) + (SCALAR,) * 4 + (OPTION,) * 4, "c")]

CALLED_BY = {"adamw": lambda _: {"adamw": LANES}}

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "c=16"]
