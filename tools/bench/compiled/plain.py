# SPDX-License-Identifier: MIT
"""The plain modules of kernels/baselines/naive_modules.h in Python, for torch.compile: weights of their own for queries, keys and
values, a mask, and scores of all pairs in memory.

B batch, T positions, C width, H heads, D head width."""
import math

import torch
from torch import nn
from torch.nn import functional as F


class PlainAttention(nn.Module):
    def __init__(self, sizes, biases):
        super().__init__()
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=biases)
        self.heads, self.key_value_heads = sizes.heads, sizes.key_value_heads
        wide, narrow = sizes.heads * sizes.head_width, sizes.key_value_heads * sizes.head_width
        self.query, self.key, self.value = linear(sizes.width, wide), linear(sizes.width, narrow), linear(sizes.width, narrow)
        self.output = linear(wide, sizes.width)
        self.register_buffer("later", torch.ones(sizes.sequence, sizes.sequence, dtype=torch.bool).triu(1))

    def forward(self, x_BTC, cosine=None, sine=None):
        """cosine and sine: [T, D], both halves equal, or None for no rotary positions."""
        q, k, v = (part(x_BTC).unflatten(2, (heads, -1)).transpose(1, 2)
                   for part, heads in ((self.query, self.heads), (self.key, self.key_value_heads), (self.value, self.key_value_heads)))
        if cosine is not None:
            q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
        k, v = (x.repeat_interleave(self.heads // self.key_value_heads, 1) for x in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.size(3))
        y = scores.masked_fill(self.later, -math.inf).softmax(-1) @ v
        return self.output(y.transpose(1, 2).flatten(2))


def rotated(x_BHTD, cosine, sine):
    first, second = x_BHTD.chunk(2, -1)
    return x_BHTD * cosine.to(x_BHTD.dtype) + torch.cat([-second, first], -1) * sine.to(x_BHTD.dtype)


class PlainNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.epsilon)).to(x.dtype) * self.weight


class PlainBlock(nn.Module):
    """A block of a Llama."""

    def __init__(self, sizes):
        super().__init__()
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
        self.norm1, self.norm2 = PlainNorm(sizes.width, sizes.norm_epsilon), PlainNorm(sizes.width, sizes.norm_epsilon)
        self.attention = PlainAttention(sizes, biases=False)
        self.gate, self.up = linear(sizes.width, sizes.feed_forward), linear(sizes.width, sizes.feed_forward)
        self.down = linear(sizes.feed_forward, sizes.width)

    def forward(self, x_BTC, cosine, sine):
        x_BTC = x_BTC + self.attention(self.norm1(x_BTC), cosine, sine)
        y_BTC = self.norm2(x_BTC)
        return x_BTC + self.down(F.silu(self.gate(y_BTC)) * self.up(y_BTC))
