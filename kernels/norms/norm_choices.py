# SPDX-License-Identifier: MIT
"""The specializations of the norms' Triton kernels: a program holds whole rows in registers."""

# Eight elements a thread (one access of 16 bytes in bf16) until a block has all its 1024 threads; narrow rows share a program.
NORM_CHOICES = [
    dict(ROWS=8, WIDTH=128, warps=4),
    dict(ROWS=2, WIDTH=512, warps=4),
    dict(ROWS=1, WIDTH=1024, warps=4),
    dict(ROWS=1, WIDTH=2048, warps=8),
    dict(ROWS=1, WIDTH=4096, warps=16),
    dict(ROWS=1, WIDTH=8192, warps=32),
    dict(ROWS=1, WIDTH=16384, warps=32),
    # Odd widths and pointers.
    dict(ROWS=8, WIDTH=128, warps=4, aligned=False),
    dict(ROWS=1, WIDTH=2048, warps=8, aligned=False),
    dict(ROWS=1, WIDTH=16384, warps=32, aligned=False),
]
NORM_ALIGNED = ("width",)
