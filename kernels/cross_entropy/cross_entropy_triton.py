# SPDX-License-Identifier: MIT
"""Level triton of cross_entropy: one program per row. The second pass over a row reads it from the L2 cache (132
programs, or twice as many, have rows of at most 256 KB), so that memory sees one read and one write."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel

LOWEST = tl.constexpr(-1e38)  # below every logit, and finite, so that its difference with itself is 0


@triton.jit
def forward(logits, targets, scale, row_losses, width, ignore_index, label_smoothing, with_gradient, SIZE: tl.constexpr):
    """Computes the loss of a row, without the factor `scale`, and overwrites its logits with their gradient
    scale * (p - (1 - a) one_hot(target) - a / V)."""
    row = tl.program_id(0).to(tl.int64)
    start = logits + row * width
    target = tl.load(targets + row)
    kept = target != ignore_index
    # Each lane has its own maximum and sum; lanes are combined only at the end of the row.
    largest = tl.full([SIZE], LOWEST, tl.float32)
    exponentials = tl.zeros([SIZE], tl.float32)
    plain = tl.zeros([SIZE], tl.float32)
    for first in range(0, width, SIZE):
        column = first + tl.arange(0, SIZE)
        x = tl.load(start + column, mask=column < width, other=-float("inf")).to(tl.float32)
        # This needs one exponential per element, of the smaller value relative to the larger one.
        ratio = tl.exp(-tl.abs(x - largest))
        exponentials = tl.where(x > largest, exponentials * ratio + 1.0, exponentials + ratio)
        largest = tl.maximum(largest, x)
        plain += tl.where(column < width, x, 0.0)
    peak = tl.max(largest, 0)
    # The largest logit is subtracted first: a large logit and the logarithm of a sum of exp would cancel.
    log_sum = tl.log(tl.sum(exponentials * tl.exp(largest - peak), 0))
    in_range = kept & (target >= 0) & (target < width)
    picked = tl.load(start + tl.where(in_range, target, 0)).to(tl.float32)
    loss = log_sum - (1.0 - label_smoothing) * (picked - peak)
    # Without label smoothing a logit of -infinity is allowed, and 0 * -infinity would be NaN.
    loss -= tl.where(label_smoothing != 0.0, label_smoothing * (tl.sum(plain, 0) / width - peak), 0.0)
    loss = tl.where(in_range, loss, float("nan"))  # the target is no class
    tl.store(row_losses + row, tl.where(kept, loss, 0.0))
    if with_gradient != 0:
        tl.debug_barrier()  # all threads must have read the target's logit before one overwrites it
        factor = tl.load(scale)
        for first in range(0, width, SIZE):
            column = first + tl.arange(0, SIZE)
            x = tl.load(start + column, mask=column < width, other=0.0).to(tl.float32)
            gradient = tl.exp(x - peak - log_sum) - label_smoothing / width
            gradient -= tl.where(column == target, 1.0 - label_smoothing, 0.0)
            gradient = tl.where(kept, gradient * factor, 0.0)
            tl.store(start + column, gradient.to(logits.dtype.element_ty), mask=column < width)


@triton.jit
def total(row_losses, scale, loss, rows, SIZE: tl.constexpr):
    """loss = scale * the sum over rows, by one program in a fixed order."""
    lanes = tl.zeros([SIZE], tl.float32)
    for first in range(0, rows, SIZE):
        row = first + tl.arange(0, SIZE)
        lanes += tl.load(row_losses + row, mask=row < rows, other=0.0)
    tl.store(loss, tl.sum(lanes, 0) * tl.load(scale))


@triton.jit
def backward(logit_gradient, grad_loss, result, count, in_place, SIZE: tl.constexpr):
    """If `result` is `logit_gradient` and the factor is 1, nothing is read or written."""
    factor = tl.load(grad_loss)
    if (in_place == 0) | (factor != 1.0):
        for piece in range(tl.program_id(0), tl.cdiv(count, SIZE), tl.num_programs(0)):
            place = tl.cast(piece, tl.int64) * SIZE + tl.arange(0, SIZE)
            value = tl.load(logit_gradient + place, mask=place < count, other=0.0).to(tl.float32)
            tl.store(result + place, (value * factor).to(result.dtype.element_ty), mask=place < count)


KERNELS = {
    "cross_entropy_forward": TritonKernel(
        forward,
        arguments=dict(logits="*T", targets="*i64", scale="*fp32", row_losses="*fp32", width="i32", ignore_index="i64",
                       label_smoothing="fp32", with_gradient="i32"),
        sizes=("rows",),
        choices=[
            dict(SIZE=512, warps=4, aligned=False),
            dict(SIZE=8192, warps=16),
            dict(SIZE=4096, warps=16, aligned=False),
        ],
        fits="width <= SIZE or SIZE > 512",
        aligned=("logits", "width"),
        grid=("rows",),
    ),
    "cross_entropy_total": TritonKernel(
        total,
        arguments=dict(row_losses="*fp32", scale="*fp32", loss="*T", rows="i32"),
        types=[{"T": "fp32"}],
        choices=[dict(SIZE=4096, warps=16, aligned=False)],
        grid=("1",),
    ),
    "cross_entropy_backward": TritonKernel(
        backward,
        arguments=dict(logit_gradient="*T", grad_loss="*fp32", result="*T", count="i64", in_place="i32"),
        sizes=("programs",),
        choices=[dict(SIZE=2048, warps=4), dict(SIZE=1024, warps=4, aligned=False)],
        aligned=("logit_gradient", "result", "count"),
        grid=("programs",),
    ),
}
