# SPDX-License-Identifier: MIT
# Definition of rotary. B batch, T positions, H query heads, K key heads, D head width
import torch


def rotary(
    qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, heads: int, key_value_heads: int
) -> torch.Tensor:
    batch, positions, width = qkv.size(0), qkv.size(1), qkv.size(2)
    head_width = width // (heads + 2 * key_value_heads)
    rotated_heads = heads + key_value_heads
    rotated = qkv.narrow(2, 0, rotated_heads * head_width).reshape(batch, positions, rotated_heads, head_width)
    wide = rotated.to(torch.promote_types(qkv.dtype, torch.float32))
    first = wide.narrow(3, 0, head_width // 2)
    second = wide.narrow(3, head_width // 2, head_width // 2)
    c = cosine.unsqueeze(1)
    s = sine.unsqueeze(1)
    rotated = torch.cat([first * c - second * s, second * c + first * s], dim=3).to(qkv.dtype)
    value = qkv.narrow(2, rotated_heads * head_width, key_value_heads * head_width)
    return torch.cat([rotated.reshape(batch, positions, rotated_heads * head_width), value], dim=2)


# qkv is [B, T, heads, 2, D/2]. Only the first `rotated_heads` heads are rotated. The backward passes -sine.
def rotary_by_head(qkv: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, rotated_heads: int) -> torch.Tensor:
    wide = qkv.to(torch.promote_types(qkv.dtype, torch.float32))
    first, second = wide.select(3, 0), wide.select(3, 1)
    c = cosine.unsqueeze(1)
    s = sine.unsqueeze(1)
    y = torch.stack([first * c - second * s, second * c + first * s], dim=3).to(qkv.dtype)
    head = torch.arange(qkv.size(2), device=qkv.device).reshape(-1, 1, 1)
    return torch.where(head < rotated_heads, y, qkv)
