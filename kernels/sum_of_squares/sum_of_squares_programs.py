# SPDX-License-Identifier: MIT
# The function of sum_of_squares that is compiled ahead of time adds one tensor. The elements are viewed as rows of c.
from program import LANES, same

PROGRAMS = [same("add_squares", ("float64[]", "x[n,c]"), "c")]

CALLED_BY = {"sum_of_squares": lambda _: {"add_squares": LANES}}

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "c=16"]
