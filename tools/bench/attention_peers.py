# SPDX-License-Identifier: MIT
"""Peers of attention for peers.py: SDPA of PyTorch, compiled FlexAttention, and attention as one writes it by hand.

B batch, H query heads, K heads of keys and values, T positions, D head width."""
import functools
import math

import torch
from attention_pattern import Pattern
from peer_timing import DEVICE, Peer, check_same, random
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention

BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
LONG_SHAPES = [(8, 4096, 32, 8, 64), (2, 8192, 32, 8, 128), (1, 32768, 32, 8, 128)]  # B, T, H, K, D
SHORT_SHAPE = (8, 2048, 32, 32, 128)  # where the scores of all pairs fit into memory
MOST_SCORES = 2**31  # elements of the scores that level explicit stores
LARGEST_ERROR = 0.02  # of check_same


def patterns_of(positions):
    """The patterns that `--pattern all` times, in the words of a row's shape."""
    return ["causal", "causal & window(256)", "causal & window(1024)", "causal & documents, 8 documents", f"causal | prefix({positions // 4})",
            "causal, alibi", "causal, softcap 30", "causal & dilated(256, 4)", "window(256) | global(64)",
            "causal & (window(256) | global(64))", "blocks(0.25, 1)"]


def attention_peer(shape, text, pairs, level, run, **others):
    """`pairs`: the visible ones of all rows."""
    batch, positions, heads, shared, width = shape
    flops = 4 * pairs * heads * width
    packed, y, statistics = batch * positions * (heads + 2 * shared) * width, batch * positions * heads * width, 4 * batch * positions * heads
    sizes = f"{batch}x{positions} positions, {heads}" + (f"/{shared}" if shared != heads else "") + f" heads of {width}"
    make = lambda: [random(batch, count, positions, width) for count in (heads, shared, shared)]
    return Peer("attention", f"{sizes}, {text}", make, run, (2 * (packed + y) + statistics, flops), (4 * (packed + y) + statistics, 2.5 * flops),
                level=level, **others)


def sdpa(level, q, k, v, **mask):
    with sdpa_kernel(BACKENDS[level]):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=q.size(1) != k.size(1), **mask)


def causal_peers():
    """SDPA at the shapes that `bench kernels` times without a configuration."""
    for shape in [(64, 1024, 12, 12, 64), *LONG_SHAPES[:2]]:
        for deterministic in (False, True):
            for level in BACKENDS:
                yield attention_peer(shape, "causal" + (", deterministic" if deterministic else ""), shape[0] * shape[1] * (shape[1] + 1) // 2, level,
                                     lambda q, k, v, level=level: sdpa(level, q, k, v, is_causal=True), deterministic=deterministic)


class Flex:
    """Compiled FlexAttention. On CPUs it runs without torch.compile, and has no backward there."""

    def __init__(self, pattern, mask, tune):
        torch._dynamo.reset()
        torch._functorch.config.donated_buffer = False  # the backward is run again and again
        self.score, self.mask = pattern.score(), mask
        mode = "max-autotune-no-cudagraphs" if tune else None
        self.attention = torch.compile(flex_attention, dynamic=False, fullgraph=True, mode=mode) if DEVICE == "cuda" else flex_attention

    def __call__(self, q, k, v):
        return self.attention(q, k, v, score_mod=self.score, block_mask=self.mask, enable_gqa=q.size(1) != k.size(1))


class Cudnn:
    """cuDNN's SDPA. Causal attention is an argument of the call; other patterns are a T x T bias, which is made once."""

    def __init__(self, pattern):
        self.pattern, self.mask = pattern, {}

    def __call__(self, q, k, v):
        if not self.mask:
            self.mask = {"is_causal": True} if self.pattern.text == "causal" else {"attn_mask": self.bias()}
        return sdpa("cudnn", q, k, v, **self.mask)

    def bias(self):
        place = torch.arange(self.pattern.positions, device=DEVICE)
        bias = torch.zeros((), device=DEVICE)
        if self.pattern.slope_H is not None:
            bias = -self.pattern.slope_H[:, None, None] * (place[:, None] - place).abs()
        return bias.bfloat16().masked_fill(~self.pattern.seen(place)[:, None], -math.inf)


class Explicit:
    """matmul, mask, softmax, matmul. The T x T mask is made once."""

    def __init__(self, pattern):
        self.pattern, self.hidden = pattern, None

    def __call__(self, q, k, v):
        if self.hidden is None:
            self.hidden = ~self.pattern.seen(torch.arange(self.pattern.positions, device=DEVICE))[:, None]
        k, v = (x.repeat_interleave(q.size(1) // x.size(1), 1) for x in (k, v))
        scores = q @ k.transpose(2, 3) * (1 / math.sqrt(q.size(3)))
        return scores.masked_fill(self.hidden, -math.inf).softmax(-1) @ v


def check(pattern, peer, run):
    """Compares 48 queries of each row with the definition, and all gradients if only the results of these queries have one."""
    positions = pattern.positions
    query = torch.cat([torch.arange(begin, begin + 16, device=DEVICE) for begin in (0, positions // 2, positions - 16)])
    inputs = [x.requires_grad_(peer.differentiable) for x in peer.make()]
    results, expected = run(*inputs), pattern.attention(*inputs, query)
    pairs = [("the result", results[:, :, query], expected)]
    if peer.differentiable:
        gradient = torch.randn_like(expected)
        whole = torch.zeros_like(results).index_copy(2, query, gradient.to(results.dtype))
        pairs += zip(("the gradient of queries", "the gradient of keys", "the gradient of values"), torch.autograd.grad(results, inputs, whole),
                     torch.autograd.grad(expected, inputs, gradient))
    for name, found, wanted in pairs:
        check_same(name, found, wanted, LARGEST_ERROR)


def pattern_peers(texts, shapes, block, wanted):
    """Peers for each shape ("8x4096x32x8x64") and pattern. Without shapes: the long ones, and for two patterns the short one."""
    asked = [tuple(map(int, shape.split("x"))) for shape in shapes or []]
    for shape in asked or [*LONG_SHAPES, SHORT_SHAPE]:
        batch, positions, heads, _, _ = shape
        for text in patterns_of(positions) if texts == ["all"] else texts:
            if not asked and shape == SHORT_SHAPE and text not in ("causal", "causal & window(256)"):
                continue
            pattern = Pattern(text, batch, positions, heads, DEVICE)
            mask, pairs = pattern.block_mask(block)
            runs = {"flex" if block == 128 else f"flex_{block}": lambda: Flex(pattern, mask, "max" in wanted)}
            if not pattern.softcap:
                runs["cudnn"] = lambda: Cudnn(pattern)
            if not pattern.score() and batch * heads * positions**2 <= MOST_SCORES:
                runs["explicit"] = lambda: Explicit(pattern)
            for level, run in runs.items():
                if wanted - {"max"} and level not in wanted:
                    continue
                yield attention_peer(shape, text, pairs * (batch // pattern.rows), level, run(), check=functools.partial(check, pattern),
                                     differentiable=DEVICE == "cuda" or not level.startswith("flex"))
