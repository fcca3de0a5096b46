# SPDX-License-Identifier: MIT
"""Level triton of adamw: one pass over master, moments and gradient. All values that change from step to step are read
from the device."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def update(master, first_moment, second_moment, gradient, compute_copy, learning_rate, step, gradient_scale, skip, beta1, beta2,
           log_beta1, log_beta2, epsilon, weight_decay, has_copy, count, SIZE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    inside = place < count
    skipped = tl.load(skip) != 0.0
    # The corrections 1 - beta^step are small in the first steps, so they are computed in fp64.
    steps = tl.load(step).to(tl.float64)
    first_correction = (1.0 - tl.exp(log_beta1 * steps)).to(tl.float32)
    second_correction = tl.sqrt((1.0 - tl.exp(log_beta2 * steps)).to(tl.float32))
    rate = tl.load(learning_rate)
    value = tl.load(master + place, mask=inside, other=0.0)
    first = tl.load(first_moment + place, mask=inside, other=0.0)
    second = tl.load(second_moment + place, mask=inside, other=0.0)
    g = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32) * tl.load(gradient_scale)
    # 1 - beta is computed in fp64 too.
    new_first = tl.cast(beta1, tl.float32) * first + tl.cast(1.0 - beta1, tl.float32) * g
    new_second = tl.cast(beta2, tl.float32) * second + tl.cast(1.0 - beta2, tl.float32) * g * g
    change = rate / first_correction * new_first / (tl.sqrt_rn(new_second) / second_correction + epsilon)
    new_value = value * (1.0 - rate * weight_decay) - change
    # tl.where selects instead of multiplying, because a skipped gradient may hold NaN or infinity.
    new_value = tl.where(skipped, value, new_value)
    changes = inside & (skipped == 0)
    tl.store(master + place, new_value, mask=changes)
    tl.store(first_moment + place, new_first, mask=changes)
    tl.store(second_moment + place, new_second, mask=changes)
    tl.store(compute_copy + place, new_value.to(compute_copy.dtype.element_ty), mask=inside & (has_copy != 0))


KERNELS = {
    "adamw": TritonKernel(
        update,
        arguments=dict(master="*fp32", first_moment="*fp32", second_moment="*fp32", gradient="*T", compute_copy="*C", learning_rate="*fp32",
                       step="*fp32", gradient_scale="*fp32", skip="*fp32", beta1="fp64", beta2="fp64", log_beta1="fp64", log_beta2="fp64",
                       epsilon="fp32", weight_decay="fp32", has_copy="i32", count="i64"),
        types=[{"T": gradient, "C": copy} for gradient in ("fp32", "bf16", "fp16") for copy in ("bf16", "fp32", "fp16")],
        # A thread has four elements: one 16-byte access to each fp32 tensor.
        choices=[dict(SIZE=1024, warps=8), dict(SIZE=1024, warps=8, aligned=False)],
        aligned=("master", "first_moment", "second_moment", "gradient", "compute_copy", "count"),
        grid=("ceil_div(count, SIZE)",),
    ),
}
