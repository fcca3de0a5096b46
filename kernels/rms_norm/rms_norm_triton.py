# SPDX-License-Identifier: MIT
"""Level triton of rms_norm and add_rms_norm: one pass forward, one pass backward."""
import triton
import triton.language as tl

from kernels.norms.norm_choices import NORM_ALIGNED, NORM_CHOICES
from kernels.norms.norm_rows_triton import normed_rows, rows_of_block
from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def forward(x, branch, weight, y, total, rstd, rows, width, eps, adds, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """y = x * rstd * weight. With `adds` x is replaced by x + branch, which is rounded and stored as total."""
    row, offset, inside = rows_of_block(tl.program_id(0), rows, width, ROWS, WIDTH)
    column = tl.arange(0, WIDTH)
    value = normed_rows(x, branch, total, offset, inside, adds)
    scale = 1.0 / tl.sqrt_rn(tl.sum(value * value, 1) / width + eps)
    tl.store(rstd + row, scale, mask=row < rows)
    factor = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    tl.store(y + offset, (value * scale[:, None] * factor[None, :]).to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward(grad_y, grad_total, x, weight, rstd, grad_x, partials, rows, width, adds, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """grad_x = rstd * (g - x * rstd^2 * mean(g * x)) with g = grad_y * weight; with `adds` grad_total is added. Each
    program iterates over rows and stores one row of partial sums of grad_weight = sum of grad_y * x * rstd."""
    program = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    factor = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    grad_weight = tl.zeros([ROWS, WIDTH], tl.float32)
    for block in range(program, tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row, offset, inside = rows_of_block(block, rows, width, ROWS, WIDTH)
        gradient = tl.load(grad_y + offset, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
        through = tl.load(grad_total + offset, mask=inside & (adds != 0), other=0.0).to(tl.float32)
        scale = tl.load(rstd + row, mask=row < rows, other=0.0)[:, None]
        value *= scale
        grad_weight += gradient * value
        gradient *= factor
        mean = tl.sum(gradient * value, 1)[:, None] / width
        result = scale * (gradient - value * mean) + through
        tl.store(grad_x + offset, result.to(grad_x.dtype.element_ty), mask=inside)
    tl.store(partials + program.to(tl.int64) * width + column, tl.sum(grad_weight, 0), mask=column < width)


KERNELS = {
    "rms_norm_forward": TritonKernel(
        forward,
        arguments=dict(x="*T", branch="*T", weight="*T", y="*T", total="*T", rstd="*fp32", rows="i32", width="i32", eps="fp32", adds="i32"),
        choices=NORM_CHOICES,
        fits="width <= WIDTH",
        aligned=("x", "branch", "weight", "y", "total") + NORM_ALIGNED,
        grid=("ceil_div(rows, ROWS)",),
    ),
    "rms_norm_backward": TritonKernel(
        backward,
        arguments=dict(grad_y="*T", grad_total="*T", x="*T", weight="*T", rstd="*fp32", grad_x="*T", partials="*fp32",
                       rows="i32", width="i32", adds="i32"),
        sizes=("programs",),
        choices=NORM_CHOICES,
        fits="width <= WIDTH",
        aligned=("grad_y", "grad_total", "x", "weight", "grad_x", "partials") + NORM_ALIGNED,
        grid=("programs",),
    ),
}
