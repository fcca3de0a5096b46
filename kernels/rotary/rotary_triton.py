# SPDX-License-Identifier: MIT
"""Level triton of rotary: rotates the query and key heads of packed qkv in place. The backward negates `direction`."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def turn(qkv, cosine, sine, positions, rotated_heads, half, row_width, direction, HEADS: tl.constexpr, HALF: tl.constexpr):
    """Each program has HEADS heads of one position and reads cosine and sine once for all of them."""
    program, groups = tl.program_id(0), tl.cdiv(rotated_heads, HEADS)
    row = program // groups
    head = program % groups * HEADS + tl.arange(0, HEADS)
    column = tl.arange(0, HALF)
    angle = (row % positions) * half + column
    c = tl.load(cosine + angle, mask=column < half, other=0.0)[None, :]
    s = tl.load(sine + angle, mask=column < half, other=0.0)[None, :] * direction
    inside = (head < rotated_heads)[:, None] & (column < half)[None, :]
    first = qkv + row.to(tl.int64) * row_width + head[:, None] * (2 * half) + column[None, :]
    x1 = tl.load(first, mask=inside, other=0.0).to(tl.float32)
    x2 = tl.load(first + half, mask=inside, other=0.0).to(tl.float32)
    tl.store(first, (x1 * c - x2 * s).to(qkv.dtype.element_ty), mask=inside)
    tl.store(first + half, (x2 * c + x1 * s).to(qkv.dtype.element_ty), mask=inside)


KERNELS = {
    "rotary": TritonKernel(
        turn,
        arguments=dict(qkv="*T", cosine="*fp32", sine="*fp32", positions="i32", rotated_heads="i32", half="i32", row_width="i32", direction="fp32"),
        sizes=("rows",),
        # HALF is the largest half of a head's width. A thread has eight pairs, with HALF=16 four.
        choices=[
            dict(HEADS=32, HALF=32, warps=4),
            dict(HEADS=16, HALF=64, warps=4),
            dict(HEADS=32, HALF=16, warps=4, aligned=False),
            dict(HEADS=16, HALF=64, warps=4, aligned=False),
            dict(HEADS=8, HALF=128, warps=4, aligned=False),
        ],
        fits="half <= HALF",
        aligned=("qkv", "cosine", "sine", "half", "row_width"),
        grid=("rows * ceil_div(rotated_heads, HEADS)",),
    ),
}
