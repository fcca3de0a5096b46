# SPDX-License-Identifier: MIT
"""Level triton of sum_of_squares: one partial sum in fp64 per program, which one program then adds up. There are no
atomics."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def squares(x, partials, count, first_partial, SIZE: tl.constexpr):
    """Each program iterates over pieces of one tensor and stores partials[first_partial + program]."""
    program = tl.program_id(0)
    lanes = tl.zeros([SIZE], tl.float64)
    for piece in range(program, tl.cdiv(count, SIZE), tl.num_programs(0)):
        place = tl.cast(piece, tl.int64) * SIZE + tl.arange(0, SIZE)
        value = tl.load(x + place, mask=place < count, other=0.0).to(tl.float64)
        lanes += value * value
    tl.store(partials + first_partial + program, tl.sum(lanes, 0))


@triton.jit
def total(partials, result, count, SIZE: tl.constexpr):
    lanes = tl.zeros([SIZE], tl.float64)
    for first in range(0, count, SIZE):
        place = first + tl.arange(0, SIZE)
        lanes += tl.load(partials + place, mask=place < count, other=0.0)
    tl.store(result, tl.sum(lanes, 0).to(tl.float32))


KERNELS = {
    "sum_of_squares_partials": TritonKernel(
        squares,
        arguments=dict(x="*T", partials="*fp64", count="i64", first_partial="i32"),
        sizes=("programs",),
        choices=[dict(SIZE=2048, warps=8), dict(SIZE=2048, warps=8, aligned=False)],
        aligned=("x", "count"),
        grid=("programs",),
    ),
    "sum_of_squares_total": TritonKernel(
        total,
        arguments=dict(partials="*fp64", result="*T", count="i32"),
        types=[{"T": "fp32"}],
        choices=[dict(SIZE=1024, warps=8, aligned=False)],
        grid=("1",),
    ),
}
