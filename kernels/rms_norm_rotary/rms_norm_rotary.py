# SPDX-License-Identifier: MIT
# Definition of rms_norm_rotary. B batch, T positions, H query heads, K key heads, D head width
from typing import Tuple

import torch


# x [B, T, H, D] -> the normalized and rotated heads, in fp32 or wider.
def normed_and_rotated(
    x: torch.Tensor, weight: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, eps: float
) -> torch.Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    normed = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps) * weight
    half = x.size(3) // 2
    first = normed.narrow(3, 0, half)
    second = normed.narrow(3, half, half)
    c = cosine.unsqueeze(1)
    s = sine.unsqueeze(1)
    return torch.cat([first * c - second * s, second * c + first * s], dim=3)


def rms_norm_rotary(
    qkv: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    cosine: torch.Tensor,
    sine: torch.Tensor,
    heads: int,
    key_value_heads: int,
    eps: float,
) -> torch.Tensor:
    batch, positions, width = qkv.size(0), qkv.size(1), qkv.size(2)
    by_head = qkv.reshape(batch, positions, heads + 2 * key_value_heads, width // (heads + 2 * key_value_heads))
    query = normed_and_rotated(by_head.narrow(2, 0, heads), query_weight, cosine, sine, eps)
    key = normed_and_rotated(by_head.narrow(2, heads, key_value_heads), key_weight, cosine, sine, eps)
    value = by_head.narrow(2, heads + key_value_heads, key_value_heads)
    return torch.cat([query.to(qkv.dtype), key.to(qkv.dtype), value], dim=2).reshape(batch, positions, width)


# Here qkv is [B, T, A, 2, D/2] and a weight [2, D/2]. The first `rotated_heads` heads are normalized and rotated, of which
# `heads` are queries. The backward computes rstd again.
def rms_norm_rotary_forward(
    qkv: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    cosine: torch.Tensor,
    sine: torch.Tensor,
    heads: torch.Tensor,
    rotated_heads: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    wide = qkv.to(torch.promote_types(qkv.dtype, torch.float32))
    rstd = torch.rsqrt((wide * wide).mean((3, 4), keepdim=True) + eps)
    head = torch.arange(qkv.size(2), device=qkv.device).reshape(-1, 1, 1)
    normed = wide * rstd * torch.where(head < heads, query_weight, key_weight)
    first, second = normed.select(3, 0), normed.select(3, 1)
    c = cosine.unsqueeze(1)
    s = sine.unsqueeze(1)
    y = torch.stack([first * c - second * s, second * c + first * s], dim=3).to(qkv.dtype)
    return torch.where(head < rotated_heads, y, qkv)


def rms_norm_rotary_backward(
    grad_y: torch.Tensor,
    qkv: torch.Tensor,
    query_weight: torch.Tensor,
    key_weight: torch.Tensor,
    cosine: torch.Tensor,
    sine: torch.Tensor,
    heads: torch.Tensor,
    rotated_heads: torch.Tensor,
    eps: float,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    wide = qkv.to(torch.promote_types(qkv.dtype, torch.float32))
    rstd = torch.rsqrt((wide * wide).mean((3, 4), keepdim=True) + eps)
    normed = wide * rstd
    grad = grad_y.to(wide.dtype)
    first, second = grad.select(3, 0), grad.select(3, 1)
    c = cosine.unsqueeze(1)
    s = sine.unsqueeze(1)
    rotated_back = torch.stack([first * c + second * s, second * c - first * s], dim=3)
    head = torch.arange(qkv.size(2), device=qkv.device).reshape(-1, 1, 1)
    weighted = rotated_back * torch.where(head < heads, query_weight, key_weight)
    grad_x = rstd * (weighted - normed * (weighted * normed).mean((3, 4), keepdim=True))
    weight_products = rotated_back * normed
    zero = torch.zeros_like(weight_products)
    query_weight_gradient = torch.where(head < heads, weight_products, zero).sum((0, 1, 2))
    key_weight_gradient = torch.where((head >= heads) & (head < rotated_heads), weight_products, zero).sum((0, 1, 2))
    return torch.where(head < rotated_heads, grad_x.to(qkv.dtype), grad_y), query_weight_gradient, key_weight_gradient
