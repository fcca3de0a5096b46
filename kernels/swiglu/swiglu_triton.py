# SPDX-License-Identifier: MIT
"""Level triton of swiglu: each program computes a part of one row and reads its gate and up."""
import triton
import triton.language as tl

from kernels.activation.activation_triton import GELU_TANH, activate, numbers_of, slope
from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def forward(gate_up, y, width, kind, SIZE: tl.constexpr):
    """`kind` is silu or gelu_tanh, by its number in activation_triton.py. Launches refuse others."""
    program, pieces = tl.program_id(0), tl.cdiv(width, SIZE)
    row = (program // pieces).to(tl.int64)
    column = program % pieces * SIZE + tl.arange(0, SIZE)
    inside = column < width
    gate = tl.load(gate_up + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    activated = gate / (1.0 + tl.exp(-gate))
    if kind == GELU_TANH:
        activated = activate(gate, GELU_TANH)
    tl.store(y + row * width + column, (activated * up).to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward(grad_y, gate_up, grad, width, kind, SIZE: tl.constexpr):
    """Recomputes the activated gate, which is cheaper than to save it."""
    program, pieces = tl.program_id(0), tl.cdiv(width, SIZE)
    row = (program // pieces).to(tl.int64)
    column = program % pieces * SIZE + tl.arange(0, SIZE)
    inside = column < width
    gradient = tl.load(grad_y + row * width + column, mask=inside, other=0.0).to(tl.float32)
    gate = tl.load(gate_up + row * 2 * width + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * width + width + column, mask=inside, other=0.0).to(tl.float32)
    share = 1.0 / (1.0 + tl.exp(-gate))
    grad_gate = gradient * up * (share + gate * share * (1.0 - share))
    grad_up = gradient * gate * share
    if kind == GELU_TANH:
        grad_gate = gradient * up * slope(gate, GELU_TANH)
        grad_up = gradient * activate(gate, GELU_TANH)
    tl.store(grad + row * 2 * width + column, grad_gate.to(grad.dtype.element_ty), mask=inside)
    tl.store(grad + row * 2 * width + width + column, grad_up.to(grad.dtype.element_ty), mask=inside)


CHOICES = [
    dict(SIZE=128, warps=4, aligned=False),
    dict(SIZE=1024, warps=4),
    dict(SIZE=1024, warps=4, aligned=False),
]
GATES = numbers_of("silu", "gelu_tanh")
FITS = "width <= SIZE or SIZE == 1024"

KERNELS = {
    "swiglu_forward": TritonKernel(
        forward,
        arguments=dict(gate_up="*T", y="*T", width="i32", kind="i32"),
        sizes=("rows",),
        choices=CHOICES,
        fits=FITS,
        named={"kind": GATES},
        aligned=("gate_up", "y", "width"),
        grid=("rows * ceil_div(width, SIZE)",),
    ),
    "swiglu_backward": TritonKernel(
        backward,
        arguments=dict(grad_y="*T", gate_up="*T", grad="*T", width="i32", kind="i32"),
        sizes=("rows",),
        choices=CHOICES,
        fits=FITS,
        named={"kind": GATES},
        aligned=("grad_y", "gate_up", "grad", "width"),
        grid=("rows * ceil_div(width, SIZE)",),
    ),
}
