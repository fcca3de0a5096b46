# SPDX-License-Identifier: MIT
"""Small models of plain PyTorch, as somebody writes them who knows nothing of Strata."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def heads_of(x, heads):
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


class NewGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Gpt2Block(nn.Module):
    def __init__(self, width=64, heads=4, dropout=0.1):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(dropout)

    def forward(self, x):
        query, key, value = (heads_of(part, self.heads) for part in self.qkv(self.norm_1(x)).split(x.shape[-1], dim=2))
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.dropout(self.projection(attended))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh")))


class Gpt2(nn.Module):
    """Returns the loss."""

    def __init__(self, vocabulary=100, width=64, positions=8, layers=2):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks, self.norm = nn.ModuleList(Gpt2Block(width, dropout=0) for _ in range(layers)), nn.LayerNorm(width)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class LlamaBlock(nn.Module):
    """Norms and rotations by hand, and a product for each of q, k, v, gate and up."""

    def __init__(self, width=64, heads=4, shared=2, inner=128, positions=16):
        super().__init__()
        self.heads, self.shared, self.weight = heads, shared, nn.Parameter(torch.ones(width))
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, shared * width // heads, bias=False) for _ in range(2))
        self.gate, self.up, self.down = (nn.Linear(*sizes, bias=False) for sizes in ((width, inner), (width, inner), (inner, width)))
        for name in ("cosine", "sine"):
            self.register_buffer(name, torch.rand(positions, width // heads))

    def norm(self, x):
        return self.weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def rotated(self, x):
        half = x.shape[-1] // 2
        return x * self.cosine + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * self.sine

    def repeated(self, x):
        batch, heads, positions, width = x.shape
        return x[:, :, None].expand(batch, heads, self.heads // heads, positions, width).reshape(batch, self.heads, positions, width)

    def forward(self, x):
        hidden = self.norm(x)
        query, key = self.rotated(heads_of(self.q(hidden), self.heads)), self.rotated(heads_of(self.k(hidden), self.shared))
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
        value = heads_of(self.v(hidden), self.shared)
        attended = F.scaled_dot_product_attention(query, self.repeated(key), self.repeated(value), attn_mask=mask)
        x = x + self.o(attended.transpose(1, 2).reshape(x.shape))
        hidden = self.norm(x)
        return x + self.down(F.silu(self.gate(hidden)) * self.up(hidden))


class VisionBlock(nn.Module):
    """Patches by a convolution, a class token, one block as timm writes it, and a head."""

    def __init__(self, width=64, heads=4, patches=16):
        super().__init__()
        self.heads, self.patch, self.token = heads, nn.Conv2d(3, width, 4, 4), nn.Parameter(torch.zeros(1, 1, width))
        self.place = nn.Parameter(torch.zeros(1, patches + 1, width))
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp, self.head = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, width)), nn.Linear(width, 10)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(len(x), -1, -1), x), dim=1) + self.place
        batch, positions, width = x.shape
        query, key, value = self.qkv(self.norm_1(x)).reshape(batch, positions, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.projection(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, positions, width))
        return self.head((x + self.mlp(self.norm_2(x)))[:, 0])


class Attention(nn.Module):
    """Products of q, k and v apart; scores in memory with a mask, or the operator of PyTorch if `mask` is None."""

    def __init__(self, mask, width=64, heads=4, joined=False):
        super().__init__()
        self.heads, self.joined = heads, joined
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.qkv = nn.Linear(width, 3 * width)
        self.register_buffer("mask", mask)

    def forward(self, x):
        parts = self.qkv(x).chunk(3, dim=-1) if self.joined else (self.q(x), self.k(x), self.v(x))
        query, key, value = (heads_of(part, self.heads) for part in parts)
        if self.mask is None:
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = (query @ key.transpose(-2, -1)) / math.sqrt(query.shape[-1])
            attended = F.softmax(scores.masked_fill(self.mask == 0, float("-inf")), dim=-1) @ value
        return attended.transpose(1, 2).reshape(x.shape)


def lower(positions):
    return torch.tril(torch.ones(positions, positions))


def save(path, model, *inputs):
    torch.export.save(torch.export.export(model, inputs), path)
    return path
