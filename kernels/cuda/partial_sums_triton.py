# SPDX-License-Identifier: MIT
"""Adds the rows of partial sums, always in the same order: the last step of the gradient of a weight or a bias."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def sum_rows(partials, into, count, width, add, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, count, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row < count)[:, None] & (column < width)[None, :]
        total += tl.load(partials + row[:, None].to(tl.int64) * width + column[None, :], mask=inside, other=0.0)
    result = tl.sum(total, 0)
    result += tl.load(into + column, mask=(column < width) & (add != 0), other=0.0).to(tl.float32)
    tl.store(into + column, result.to(into.dtype.element_ty), mask=column < width)


KERNELS = {
    "sum_partials": TritonKernel(
        sum_rows,
        arguments=dict(partials="*fp32", into="*T", count="i32", width="i32", add="i32"),
        types=[{"T": "fp32"}, {"T": "bf16"}, {"T": "fp16"}],
        # 32 columns are 128 bytes of a row. 32 rows at a time keep enough loads in flight.
        choices=[dict(ROWS=32, COLUMNS=32, warps=4, aligned=False)],
        grid=("ceil_div(width, COLUMNS)",),
    ),
}
