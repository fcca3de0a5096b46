# SPDX-License-Identifier: MIT
"""The specializations of the norms' Triton kernels. A program holds whole rows in registers."""

# A thread has eight elements (one 16-byte access in bf16) until a block has all its 1024 threads. Narrow rows share a
# program.
NORM_CHOICES = [
    dict(ROWS=8, WIDTH=128, warps=4),
    dict(ROWS=2, WIDTH=512, warps=4),
    dict(ROWS=1, WIDTH=1024, warps=4),
    dict(ROWS=1, WIDTH=2048, warps=8),
    dict(ROWS=1, WIDTH=4096, warps=16),
    dict(ROWS=1, WIDTH=8192, warps=32),
    dict(ROWS=1, WIDTH=16384, warps=32),
    # These are for odd widths and unaligned pointers.
    dict(ROWS=8, WIDTH=128, warps=4, aligned=False),
    dict(ROWS=1, WIDTH=2048, warps=8, aligned=False),
    dict(ROWS=1, WIDTH=16384, warps=32, aligned=False),
]
NORM_ALIGNED = ("width",)
