# SPDX-License-Identifier: MIT
"""Level triton of rms_norm_rotary: one pass forward and one backward, which overwrites the gradient."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def weight_part(weight, column, half):
    """Loads half a weight in fp32, as one row."""
    return tl.load(weight + column, mask=column < half, other=0.0).to(tl.float32)[None, :]


@triton.jit
def forward(qkv, query_weight, key_weight, cosine, sine, y, count, positions, heads, key_value_heads, half, eps, HEADS: tl.constexpr, HALF: tl.constexpr):
    """Each program has HEADS of the `count` heads of all rows. Value heads are copied."""
    all_heads = heads + 2 * key_value_heads
    head, column = tl.program_id(0) * HEADS + tl.arange(0, HEADS), tl.arange(0, HALF)
    inside = (head < count)[:, None] & (column < half)[None, :]
    offset = head[:, None].to(tl.int64) * (2 * half) + column[None, :]
    x1 = tl.load(qkv + offset, mask=inside, other=0.0).to(tl.float32)
    x2 = tl.load(qkv + offset + half, mask=inside, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt_rn(tl.sum(x1 * x1 + x2 * x2, 1) / (2 * half) + eps)
    head_in_row = head % all_heads
    is_query, is_value = (head_in_row < heads)[:, None], (head_in_row >= heads + key_value_heads)[:, None]
    w1 = tl.where(is_query, weight_part(query_weight, column, half), weight_part(key_weight, column, half))
    w2 = tl.where(is_query, weight_part(query_weight + half, column, half), weight_part(key_weight + half, column, half))
    angle = ((head // all_heads) % positions)[:, None] * half + column[None, :]
    c = tl.load(cosine + angle, mask=inside, other=0.0)
    s = tl.load(sine + angle, mask=inside, other=0.0)
    n1, n2 = x1 * rstd[:, None] * w1, x2 * rstd[:, None] * w2
    tl.store(y + offset, tl.where(is_value, x1, n1 * c - n2 * s).to(y.dtype.element_ty), mask=inside)
    tl.store(y + offset + half, tl.where(is_value, x2, n2 * c + n1 * s).to(y.dtype.element_ty), mask=inside)


@triton.jit
def backward(gradient, qkv, weight, cosine, sine, partials, count, positions, first_head, heads_per_row, all_heads, half, eps, HEADS: tl.constexpr, HALF: tl.constexpr):
    """The heads of queries or of keys, which are `heads_per_row` heads of each row from first_head on. With n = x * rstd and
    g = weight * gradient rotated back, grad_x = rstd * (g - n * mean(g * n)). Each program iterates over heads and stores
    one row of partial sums of grad_weight = sum of (gradient rotated back) * n."""
    program, column = tl.program_id(0), tl.arange(0, HALF)
    w1, w2 = weight_part(weight, column, half), weight_part(weight + half, column, half)
    sum1, sum2 = tl.zeros([HEADS, HALF], tl.float32), tl.zeros([HEADS, HALF], tl.float32)
    for block in range(program, tl.cdiv(count, HEADS), tl.num_programs(0)):
        head = block * HEADS + tl.arange(0, HEADS)
        row = head // heads_per_row
        inside = (head < count)[:, None] & (column < half)[None, :]
        offset = (row.to(tl.int64) * all_heads + first_head + head % heads_per_row)[:, None] * (2 * half) + column[None, :]
        x1 = tl.load(qkv + offset, mask=inside, other=0.0).to(tl.float32)
        x2 = tl.load(qkv + offset + half, mask=inside, other=0.0).to(tl.float32)
        y1 = tl.load(gradient + offset, mask=inside, other=0.0).to(tl.float32)
        y2 = tl.load(gradient + offset + half, mask=inside, other=0.0).to(tl.float32)
        angle = (row % positions)[:, None] * half + column[None, :]
        c = tl.load(cosine + angle, mask=inside, other=0.0)
        s = tl.load(sine + angle, mask=inside, other=0.0)
        rstd = 1.0 / tl.sqrt_rn(tl.sum(x1 * x1 + x2 * x2, 1) / (2 * half) + eps)[:, None]
        n1, n2 = x1 * rstd, x2 * rstd
        back1, back2 = y1 * c + y2 * s, y2 * c - y1 * s
        sum1 += back1 * n1
        sum2 += back2 * n2
        g1, g2 = back1 * w1, back2 * w2
        mean = (tl.sum(g1 * n1 + g2 * n2, 1) / (2 * half))[:, None]
        tl.store(gradient + offset, (rstd * (g1 - n1 * mean)).to(gradient.dtype.element_ty), mask=inside)
        tl.store(gradient + offset + half, (rstd * (g2 - n2 * mean)).to(gradient.dtype.element_ty), mask=inside)
    into = partials + program.to(tl.int64) * (2 * half) + column
    tl.store(into, tl.sum(sum1, 0), mask=column < half)
    tl.store(into + half, tl.sum(sum2, 0), mask=column < half)


# HALF is the largest half of a head's width. A thread has eight pairs, with HALF=16 four.
CHOICES = [
    dict(HEADS=32, HALF=32, warps=4),
    dict(HEADS=16, HALF=64, warps=4),
    dict(HEADS=32, HALF=16, warps=4, aligned=False),
    dict(HEADS=16, HALF=64, warps=4, aligned=False),
    dict(HEADS=8, HALF=128, warps=4, aligned=False),
]

KERNELS = {
    "rms_norm_rotary_forward": TritonKernel(
        forward,
        arguments=dict(qkv="*T", query_weight="*T", key_weight="*T", cosine="*fp32", sine="*fp32", y="*T", count="i32", positions="i32", heads="i32",
                       key_value_heads="i32", half="i32", eps="fp32"),
        choices=CHOICES,
        fits="half <= HALF",
        aligned=("qkv", "query_weight", "key_weight", "cosine", "sine", "y", "half"),
        grid=("ceil_div(count, HEADS)",),
    ),
    "rms_norm_rotary_backward": TritonKernel(
        backward,
        arguments=dict(gradient="*T", qkv="*T", weight="*T", cosine="*fp32", sine="*fp32", partials="*fp32", count="i32", positions="i32",
                       first_head="i32", heads_per_row="i32", all_heads="i32", half="i32", eps="fp32"),
        sizes=("programs",),
        choices=CHOICES,
        fits="half <= HALF",
        aligned=("gradient", "qkv", "weight", "cosine", "sine", "partials", "half"),
        grid=("programs",),
    ),
}
