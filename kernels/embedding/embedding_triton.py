# SPDX-License-Identifier: MIT
"""Level triton of embedding. The forward copies rows. In the backward each row of the vocabulary adds up its own
tokens, whose positions were sorted by token before, so that the order of the sum is always the same."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def forward(indices, weight, y, vocabulary, width, SIZE: tl.constexpr):
    """Each program copies a part of one row. An index outside of the vocabulary gives NaN and reads nothing."""
    program, pieces = tl.program_id(0), tl.cdiv(width, SIZE)
    row = (program // pieces).to(tl.int64)
    column = program % pieces * SIZE + tl.arange(0, SIZE)
    index = tl.load(indices + row)
    exists = (index >= 0) & (index < vocabulary)
    value = tl.load(weight + index * width + column, mask=(column < width) & exists, other=float("nan"))
    tl.store(y + row * width + column, value, mask=column < width)


@triton.jit
def backward(grad_y, order, starts, into, width, add, ROWS: tl.constexpr, SIZE: tl.constexpr):
    """into[v] = the sum of grad_y[order[i]] over starts[v] <= i < starts[v + 1]."""
    program, pieces = tl.program_id(0), tl.cdiv(width, SIZE)
    token = (program // pieces).to(tl.int64)
    column = program % pieces * SIZE + tl.arange(0, SIZE)
    inside = column < width
    start, end = tl.load(starts + token), tl.load(starts + token + 1)
    total = tl.zeros([ROWS, SIZE], tl.float32)
    for first in range(start, end, ROWS):
        i = first + tl.arange(0, ROWS)
        row = tl.load(order + i, mask=i < end, other=0)
        total += tl.load(grad_y + row[:, None] * width + column[None, :], mask=(i < end)[:, None] & inside[None, :], other=0.0).to(tl.float32)
    result = tl.sum(total, 0)
    place = into + token * width + column
    result += tl.load(place, mask=inside & (add != 0), other=0.0).to(tl.float32)
    tl.store(place, result.to(into.dtype.element_ty), mask=inside)


KERNELS = {
    "embedding_forward": TritonKernel(
        forward,
        arguments=dict(indices="*i64", weight="*T", y="*T", vocabulary="i64", width="i32"),
        sizes=("rows",),
        choices=[dict(SIZE=1024, warps=4), dict(SIZE=256, warps=4, aligned=False)],
        aligned=("weight", "y", "width"),
        grid=("rows * ceil_div(width, SIZE)",),
    ),
    "embedding_backward": TritonKernel(
        backward,
        arguments=dict(grad_y="*T", order="*i64", starts="*i64", into="*W", width="i32", add="i32"),
        # The gradient of a weight is written to a buffer of its own type or fp32.
        types=[{"T": "bf16", "W": "bf16"}, {"T": "bf16", "W": "fp32"}, {"T": "fp32", "W": "fp32"}, {"T": "fp16", "W": "fp16"}, {"T": "fp16", "W": "fp32"}],
        sizes=("vocabulary",),
        # Sixteen rows are loaded at a time, so that a frequent token waits for memory less often.
        choices=[dict(ROWS=16, SIZE=128, warps=4), dict(ROWS=16, SIZE=128, warps=4, aligned=False)],
        aligned=("grad_y", "into", "width"),
        grid=("vocabulary * ceil_div(width, SIZE)",),
    ),
}
