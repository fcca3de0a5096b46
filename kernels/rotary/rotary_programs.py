# SPDX-License-Identifier: MIT
# The function of rotary that is compiled ahead of time; the backward is the same function with -sine.
# b batch, t positions, a heads of query, key and value, e half of a head's width
from program import same, with_heads

TABLE = "float32[t,e]"

PROGRAMS = [same("rotary_by_head", ("x[b,t,a,2,e]", TABLE, TABLE, "host int64[]"), "ae")]

CALLED_BY = {"rotary": with_heads("rotary_by_head")}

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "a=8,e=32", "a=4,e=64", "bfloat16:a=48,e=32", "bfloat16:a=48,e=64"]
