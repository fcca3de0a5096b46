# SPDX-License-Identifier: MIT
# The function of global_norm that is compiled ahead of time adds one tensor. The elements are viewed as rows of c.
from program import same

PROGRAMS = [same("add_squares", ("float64[]", "x[n,c]"), "c")]

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "c=16"]
