# SPDX-License-Identifier: MIT
"""Level triton of layer_norm, add_layer_norm and layer_norm_gelu_tanh: one pass forward, one pass backward. ACTIVATION
is the number in activation_triton.py of the function that follows; 0 is none."""
import triton
import triton.language as tl

from kernels.activation.activation_triton import activate, numbers_of, slope
from kernels.norms.norm_choices import NORM_ALIGNED, NORM_CHOICES
from kernels.norms.norm_rows_triton import normed_rows, rows_of_block
from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def forward(x, branch, weight, bias, y, total, mean, rstd, rows, width, eps, adds, has_bias, ACTIVATION: tl.constexpr, ROWS: tl.constexpr,
            WIDTH: tl.constexpr):
    """y = activation((x - mean) * rstd * weight + bias). With `adds` x is replaced by x + branch, rounded and stored as
    total."""
    row, offset, inside = rows_of_block(tl.program_id(0), rows, width, ROWS, WIDTH)
    column = tl.arange(0, WIDTH)
    value = normed_rows(x, branch, total, offset, inside, adds)
    center = tl.sum(value, 1) / width
    value = tl.where(inside, value - center[:, None], 0.0)
    scale = 1.0 / tl.sqrt_rn(tl.sum(value * value, 1) / width + eps)
    tl.store(mean + row, center, mask=row < rows)
    tl.store(rstd + row, scale, mask=row < rows)
    factor = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)
    shift = tl.load(bias + column, mask=(column < width) & (has_bias != 0), other=0.0).to(tl.float32)
    result = activate(value * scale[:, None] * factor[None, :] + shift[None, :], ACTIVATION)
    tl.store(y + offset, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward(grad_y, grad_total, x, weight, bias, mean, rstd, grad_x, weight_partials, bias_partials, rows, width, adds, has_bias,
             ACTIVATION: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """grad_x = rstd * (g - mean(g) - n * mean(g * n)) with g = grad_y * weight and n the normalized x. With `adds`
    grad_total is added. grad_y is first multiplied by the derivative of the activation at n * weight + bias. Each
    program iterates over rows and stores one row of partial sums of grad_weight and one of grad_bias."""
    program = tl.program_id(0)
    column = tl.arange(0, WIDTH)
    factor = tl.load(weight + column, mask=column < width, other=0.0).to(tl.float32)[None, :]
    shift = tl.load(bias + column, mask=(column < width) & (has_bias != 0), other=0.0).to(tl.float32)[None, :]
    grad_weight = tl.zeros([ROWS, WIDTH], tl.float32)
    grad_bias = tl.zeros([ROWS, WIDTH], tl.float32)
    for block in range(program, tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row, offset, inside = rows_of_block(block, rows, width, ROWS, WIDTH)
        gradient = tl.load(grad_y + offset, mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + offset, mask=inside, other=0.0).to(tl.float32)
        through = tl.load(grad_total + offset, mask=inside & (adds != 0), other=0.0).to(tl.float32)
        center = tl.load(mean + row, mask=row < rows, other=0.0)[:, None]
        scale = tl.load(rstd + row, mask=row < rows, other=0.0)[:, None]
        normed = (value - center) * scale
        if ACTIVATION != 0:
            gradient *= slope(normed * factor + shift, ACTIVATION)
        grad_bias += gradient
        grad_weight += gradient * normed  # the gradient is 0 outside of the rows
        gradient *= factor
        first = tl.sum(gradient, 1)[:, None] / width
        second = tl.sum(gradient * normed, 1)[:, None] / width
        result = scale * (gradient - first - normed * second) + through
        tl.store(grad_x + offset, result.to(grad_x.dtype.element_ty), mask=inside)
    place = program.to(tl.int64) * width + column
    tl.store(weight_partials + place, tl.sum(grad_weight, 0), mask=column < width)
    tl.store(bias_partials + place, tl.sum(grad_bias, 0), mask=column < width)


ACTIVATIONS = numbers_of("none", "gelu_tanh")
CHOICES = [dict(choice, ACTIVATION=number) for number in ACTIVATIONS.values() for choice in NORM_CHOICES]

KERNELS = {
    "layer_norm_forward": TritonKernel(
        forward,
        arguments=dict(x="*T", branch="*T", weight="*T", bias="*T", y="*T", total="*T", mean="*fp32", rstd="*fp32",
                       rows="i32", width="i32", eps="fp32", adds="i32", has_bias="i32"),
        sizes=("activation",),
        choices=CHOICES,
        fits="width <= WIDTH and activation == ACTIVATION",
        named={"activation": ACTIVATIONS},
        aligned=("x", "branch", "weight", "bias", "y", "total") + NORM_ALIGNED,
        grid=("ceil_div(rows, ROWS)",),
    ),
    "layer_norm_backward": TritonKernel(
        backward,
        arguments=dict(grad_y="*T", grad_total="*T", x="*T", weight="*T", bias="*T", mean="*fp32", rstd="*fp32", grad_x="*T",
                       weight_partials="*fp32", bias_partials="*fp32", rows="i32", width="i32", adds="i32", has_bias="i32"),
        sizes=("activation", "programs"),
        choices=CHOICES,
        fits="width <= WIDTH and activation == ACTIVATION",
        named={"activation": ACTIVATIONS},
        aligned=("grad_y", "grad_total", "x", "weight", "bias", "grad_x", "weight_partials", "bias_partials") + NORM_ALIGNED,
        grid=("programs",),
    ),
}
