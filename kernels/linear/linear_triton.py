# SPDX-License-Identifier: MIT
"""Level triton of linear: one matrix product in the three layouts that forward and backward need, and the pass over the
gradient that a bias or an activation needs."""
import triton
import triton.language as tl

from kernels.activation.activation_triton import activate, numbers_of, slope
from kernels.runtime.triton_kernel import TritonKernel

GROUP = tl.constexpr(8)


@triton.jit
def product(a, b, bias, c, pre_activation, rows, columns, depth, kind, has_bias, keeps_pre_activation, add, A_ACROSS: tl.constexpr,
            B_ACROSS: tl.constexpr, EPILOGUE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """c [rows, columns] = A B or c + A B; with EPILOGUE 1 c = A B + bias, with 2 c = activation(A B + bias). A is
    [rows, depth], stored transposed if A_ACROSS; B is [depth, columns], stored transposed if B_ACROSS. Sums are fp32,
    in one fixed order."""
    program = tl.program_id(0)
    row_blocks, column_blocks = tl.cdiv(rows, ROWS), tl.cdiv(columns, COLUMNS)
    # GROUP rows of blocks are computed together: programs that run at the same time share blocks of a and b in the L2
    # cache.
    group = program // (GROUP * column_blocks)
    group_rows = min(row_blocks - group * GROUP, GROUP)
    row_block = group * GROUP + program % (GROUP * column_blocks) % group_rows
    column_block = program % (GROUP * column_blocks) // group_rows
    row = row_block * ROWS + tl.arange(0, ROWS)
    column = column_block * COLUMNS + tl.arange(0, COLUMNS)
    k = tl.arange(0, DEPTH)
    wide_row, wide_column, wide_k = row.to(tl.int64), column.to(tl.int64), k.to(tl.int64)
    a_block = a + (wide_k[None, :] * rows + row[:, None] if A_ACROSS else wide_row[:, None] * depth + k[None, :])
    b_block = b + (wide_column[None, :] * depth + k[:, None] if B_ACROSS else wide_k[:, None] * columns + column[None, :])
    a_stride = rows.to(tl.int64) * DEPTH if A_ACROSS else DEPTH
    b_stride = DEPTH if B_ACROSS else columns.to(tl.int64) * DEPTH
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, depth, DEPTH):
        a_values = tl.load(a_block, mask=(row < rows)[:, None] & (k < depth - first)[None, :], other=0.0)
        b_values = tl.load(b_block, mask=(k < depth - first)[:, None] & (column < columns)[None, :], other=0.0)
        total = tl.dot(a_values, b_values, total, input_precision="ieee")  # fp32 is not rounded to tf32
        a_block += a_stride
        b_block += b_stride
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    place = wide_row[:, None] * columns + column[None, :]
    if EPILOGUE:
        total += tl.load(bias + column, mask=(column < columns) & (has_bias != 0), other=0.0).to(tl.float32)[None, :]
        if EPILOGUE == 2:
            tl.store(pre_activation + place, total.to(pre_activation.dtype.element_ty), mask=inside & (keeps_pre_activation != 0))
            total = activate(total, kind)
    else:
        total += tl.load(c + place, mask=inside & (add != 0), other=0.0).to(tl.float32)
    tl.store(c + place, total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def gradient(grad_y, pre_activation, grad, partials, rows, columns, kind, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """grad = grad_y * activation'(pre_activation) if there is an activation, and partial sums of its columns, which
    become the gradient of the bias."""
    column_blocks = tl.cdiv(columns, COLUMNS)
    column = tl.program_id(0) % column_blocks * COLUMNS + tl.arange(0, COLUMNS)
    walker, walkers = tl.program_id(0) // column_blocks, tl.num_programs(0) // column_blocks
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for block in range(walker, tl.cdiv(rows, ROWS), walkers):
        row = tl.cast(block, tl.int64) * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        place = row[:, None] * columns + column[None, :]
        value = tl.load(grad_y + place, mask=inside, other=0.0)
        if kind != 0:
            x = tl.load(pre_activation + place, mask=inside, other=0.0).to(tl.float32)
            value = (value.to(tl.float32) * slope(x, kind)).to(value.dtype)
            tl.store(grad + place, value, mask=inside)
        sums += value.to(tl.float32)
    tl.store(partials + walker.to(tl.int64) * columns + column, tl.sum(sums, 0), mask=column < columns)


ARGUMENTS = dict(a="*T", b="*T", bias="*T", c="*C", pre_activation="*T", rows="i32", columns="i32", depth="i32", kind="i32",
                 has_bias="i32", keeps_pre_activation="i32", add="i32")
ALIGNED = ("a", "b", "bias", "c", "pre_activation", "rows", "columns", "depth")
SAME = [{"T": "bf16", "C": "bf16"}, {"T": "fp32", "C": "fp32"}, {"T": "fp16", "C": "fp16"}]
HALF = ("bf16", "fp16")


HOPPER = dict(ROWS=128, COLUMNS=256, DEPTH=64, warps=8, stages=3, only=HALF)
SMALL = dict(ROWS=64, COLUMNS=64, DEPTH=64, warps=4, stages=3, only=HALF)
ODD = dict(ROWS=64, COLUMNS=64, DEPTH=32, warps=4, stages=3, only=HALF, aligned=False)
# fp32 uses the ordinary units, because tensor cores would round it.
SINGLE = dict(ROWS=64, COLUMNS=64, DEPTH=16, warps=8, stages=3, only=("fp32",), aligned=False)


def choices(a_across, b_across):
    return [dict(tile, A_ACROSS=a_across, B_ACROSS=b_across, EPILOGUE=0) for tile in (HOPPER, SMALL, ODD, SINGLE)]


# With an activation, 128 x 256 sums would not fit into registers.
FORWARD_CHOICES = [
    dict(tile, A_ACROSS=0, B_ACROSS=1, EPILOGUE=epilogue)
    for tile, epilogue in ((HOPPER, 1), (dict(HOPPER, COLUMNS=128, stages=4), 2), (SMALL, 2), (ODD, 2), (SINGLE, 2))
]

# Large blocks are used if there are enough of them for half of an H100's 132 multiprocessors.
FITS = "(ROWS < 128 or ceil_div(rows, ROWS) * ceil_div(columns, COLUMNS) >= 66)"
GRID = ("ceil_div(rows, ROWS) * ceil_div(columns, COLUMNS)",)

EPILOGUES = {"kind": numbers_of("none", "gelu", "gelu_tanh", "relu")}
PLAIN = {"kind": numbers_of("none")}

KERNELS = {
    # y = x weight^T
    "linear_forward": TritonKernel(
        product, ARGUMENTS, FORWARD_CHOICES, GRID, SAME, "(EPILOGUE == 2 or kind == 0) and " + FITS, aligned=ALIGNED, named=EPILOGUES),
    # grad_x = grad weight
    "linear_input_gradient": TritonKernel(product, ARGUMENTS, choices(0, 0), GRID, SAME, FITS, aligned=ALIGNED, named=PLAIN),
    # grad_weight = grad^T x, written to a buffer of its own type or fp32
    "linear_weight_gradient": TritonKernel(
        product, ARGUMENTS, choices(1, 0), GRID, SAME + [{"T": "bf16", "C": "fp32"}, {"T": "fp16", "C": "fp32"}], FITS, aligned=ALIGNED, named=PLAIN),
    "linear_gradient": TritonKernel(
        gradient,
        arguments=dict(grad_y="*T", pre_activation="*T", grad="*T", partials="*fp32", rows="i32", columns="i32", kind="i32"),
        sizes=("walkers",),
        named=EPILOGUES,
        choices=[dict(ROWS=16, COLUMNS=128, warps=4), dict(ROWS=16, COLUMNS=128, warps=4, aligned=False)],
        aligned=("grad_y", "pre_activation", "grad", "partials", "columns"),
        grid=("ceil_div(columns, COLUMNS) * walkers",),
    ),
}
