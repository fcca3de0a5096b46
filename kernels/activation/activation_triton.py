# SPDX-License-Identifier: MIT
"""Level triton of activation, and the functions that linear and layer_norm apply last. `kind` is a number that is the
same for the whole grid: next to memory accesses a branch costs nothing, and one cubin serves all kinds."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel

# The numbers of traits_of() in activation_kind.h. Each has a branch in both activate and slope.
KINDS = {"none": 0, "gelu": 1, "gelu_tanh": 2, "relu": 3, "silu": 4}
GELU = tl.constexpr(KINDS["gelu"])
GELU_TANH = tl.constexpr(KINDS["gelu_tanh"])
RELU = tl.constexpr(KINDS["relu"])
SILU = tl.constexpr(KINDS["silu"])


def numbers_of(*names):
    """The kinds that a kernel has a branch for, for TritonKernel.named."""
    return {name: KINDS[name] for name in names}


@triton.jit
def sigmoids(x):
    """sigmoid(x) and sigmoid(-x), each with its own relative accuracy: 1 - sigmoid(x) would lose 2^-25, which the
    derivative of gelu_tanh multiplies by 35 at x = 5. tl.div_rn rounds correctly; Triton's default division would lose
    2^-22."""
    decay = tl.exp(-tl.abs(x))
    larger = tl.div_rn(tl.full(x.shape, 1.0, tl.float32), 1.0 + decay)
    smaller = decay * larger
    return tl.where(x >= 0.0, larger, smaller), tl.where(x >= 0.0, smaller, larger)


@triton.jit
def sigmoid(x):
    share, _ = sigmoids(x)
    return share


@triton.jit
def activate(x, kind):
    """Applies the activation to fp32 values. Kind none is the identity, as would be a kind without a branch, which launches refuse."""
    y = x
    if kind == GELU:
        y = x * (0.5 + 0.5 * tl.erf(x * 0.7071067811865476))
    if kind == GELU_TANH:
        # (1 + tanh(z)) / 2 = sigmoid(2 z)
        y = x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))
    if kind == RELU:
        y = tl.where(x <= 0.0, 0.0, x)  # tl.maximum would make a NaN 0
    if kind == SILU:
        y = x * sigmoid(x)
    return y


@triton.jit
def slope(x, kind):
    """The derivative of activate at x."""
    y = tl.full(x.shape, 1.0, tl.float32)
    if kind == GELU:
        y = 0.5 + 0.5 * tl.erf(x * 0.7071067811865476) + x * 0.3989422804014327 * tl.exp(-0.5 * x * x)
    if kind == GELU_TANH:
        share, rest = sigmoids(1.5957691216057308 * (x + 0.044715 * x * x * x))
        y = share + x * share * rest * (1.5957691216057308 + 0.21406444881780073 * x * x)
    if kind == RELU:
        y = tl.where(x > 0.0, 1.0, 0.0)
    if kind == SILU:
        share, rest = sigmoids(x)
        y = share + x * share * rest
    return y


@triton.jit
def forward(x, y, count, kind, SIZE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    value = tl.load(x + place, mask=place < count, other=0.0).to(tl.float32)
    tl.store(y + place, activate(value, kind).to(y.dtype.element_ty), mask=place < count)


@triton.jit
def backward(grad_y, x, grad_x, count, kind, SIZE: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    gradient = tl.load(grad_y + place, mask=place < count, other=0.0).to(tl.float32)
    value = tl.load(x + place, mask=place < count, other=0.0).to(tl.float32)
    tl.store(grad_x + place, (gradient * slope(value, kind)).to(grad_x.dtype.element_ty), mask=place < count)


FUNCTIONS = numbers_of("gelu", "gelu_tanh", "relu", "silu")

# A thread has sixteen elements: two 16-byte accesses in bf16.
CHOICES = [dict(SIZE=2048, warps=4), dict(SIZE=1024, warps=4, aligned=False)]

KERNELS = {
    "activation_forward": TritonKernel(
        forward,
        arguments=dict(x="*T", y="*T", count="i64", kind="i32"),
        named={"kind": FUNCTIONS},
        choices=CHOICES,
        aligned=("x", "y", "count"),
        grid=("ceil_div(count, SIZE)",),
    ),
    "activation_backward": TritonKernel(
        backward,
        arguments=dict(grad_y="*T", x="*T", grad_x="*T", count="i64", kind="i32"),
        named={"kind": FUNCTIONS},
        choices=CHOICES,
        aligned=("grad_y", "x", "grad_x", "count"),
        grid=("ceil_div(count, SIZE)",),
    ),
}
