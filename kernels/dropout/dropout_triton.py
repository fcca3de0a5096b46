# SPDX-License-Identifier: MIT
"""Level triton of dropout: the hash of element_hash.h in 32-bit arithmetic. Forward and backward use one kernel."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel

GOLDEN = tl.constexpr(0x9E3779B9)


@triton.jit
def mix(hash):
    """The mixing function of element_hash.h on uint32."""
    hash = (hash ^ (hash >> 16)) * tl.full([], 0x7FEB352D, tl.uint32)
    hash = (hash ^ (hash >> 15)) * tl.full([], 0x846CA68B, tl.uint32)
    return hash ^ (hash >> 16)


@triton.jit
def mix_row(hash, row):
    """Mixes an int64 into a hash, its low half first."""
    return mix((row >> 32).to(tl.uint32) ^ mix(row.to(tl.uint32) ^ hash))


@triton.jit
def dropout(x, y, key, site, first_row, threshold, scale, width, SIZE: tl.constexpr):
    """Each program computes a part of one row, with threshold = p * 2^32 and scale = 1 / (1 - p)."""
    program, pieces = tl.program_id(0), tl.cdiv(width, SIZE)
    row = (program // pieces).to(tl.int64)
    column = program % pieces * SIZE + tl.arange(0, SIZE)
    inside = column < width
    hash = mix(mix_row(tl.full([], GOLDEN, tl.uint32), tl.load(key)) ^ site.to(tl.uint32))
    hash = mix_row(hash, first_row + row)
    hash = mix(hash ^ mix(column.to(tl.uint32) + tl.full([], GOLDEN, tl.uint32)))
    value = tl.load(x + row * width + column, mask=inside, other=0.0).to(tl.float32)
    value = tl.where(hash >= threshold.to(tl.uint32), value * scale, 0.0)
    tl.store(y + row * width + column, value.to(y.dtype.element_ty), mask=inside)


KERNELS = {
    "dropout": TritonKernel(
        dropout,
        arguments=dict(x="*T", y="*T", key="*i64", site="i64", first_row="i64", threshold="i64", scale="fp32", width="i32"),
        sizes=("rows",),
        choices=[
            dict(SIZE=128, warps=4, aligned=False),
            dict(SIZE=1024, warps=4),
            dict(SIZE=1024, warps=4, aligned=False),
        ],
        fits="width <= SIZE or SIZE == 1024",
        aligned=("x", "y", "width"),
        grid=("rows * ceil_div(width, SIZE)",),
    ),
}
