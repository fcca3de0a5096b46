# SPDX-License-Identifier: MIT
# The functions of rms_norm_rotary that are compiled ahead of time.
# b batch, t positions, a heads of query, key and value, e half of a head's width
from program import same, with_heads

QKV, WEIGHT, TABLE, COUNT, EPS = "x[b,t,a,2,e]", "x[2,e]", "float32[t,e]", "host int64[]", "host float32[]"
READ = (QKV, WEIGHT, WEIGHT, TABLE, TABLE, COUNT, COUNT, EPS)

PROGRAMS = [
    same("rms_norm_rotary_forward", READ, "ae"),
    same("rms_norm_rotary_backward", (QKV, *READ), "ae"),
]

CALLED_BY = {"rms_norm_rotary": with_heads("rms_norm_rotary_forward", "rms_norm_rotary_backward")}

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "a=8,e=32", "a=4,e=64", "bfloat16:a=32,e=64", "bfloat16:a=48,e=64", "bfloat16:a=6,e=128"]
