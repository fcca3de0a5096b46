# SPDX-License-Identifier: MIT
"""Functions of the norms' Triton kernels: the rows of a program, and the sum that is normalized."""
import triton
import triton.language as tl


@triton.jit
def rows_of_block(block, rows, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Rows of block number `block`, ROWS per block. Returns their numbers, and for [row, column] the offset and whether
    it is inside."""
    row = tl.cast(block, tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, WIDTH)
    return row, row[:, None] * width + column[None, :], (row < rows)[:, None] & (column < width)[None, :]


@triton.jit
def normed_rows(x, branch, total, offset, inside, adds):
    """Loads the rows to normalize, in fp32: x, or with `adds` x + branch, which is rounded and stored as total."""
    value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
    value += tl.load(branch + offset, mask=inside & (adds != 0), other=0.0).to(tl.float32)
    rounded = value.to(total.dtype.element_ty)
    tl.store(total + offset, rounded, mask=inside & (adds != 0))
    return rounded.to(tl.float32)
