# SPDX-License-Identifier: MIT
# Definition of attention. B batch, T positions, H query heads, K key and value heads, D head width
from typing import Optional

import torch


def attention(
    qkv: torch.Tensor,
    heads: int,
    key_value_heads: int,
    causal: bool,
    window: int = 0,
    document_offsets: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    batch, positions = qkv.size(0), qkv.size(1)
    all_heads = heads + 2 * key_value_heads
    head_width = qkv.size(2) // all_heads
    wide = qkv.to(torch.promote_types(qkv.dtype, torch.float32))
    by_head = wide.reshape(batch, positions, all_heads, head_width).transpose(1, 2)
    group = heads // key_value_heads
    query = by_head.narrow(1, 0, heads)
    key = by_head.narrow(1, heads, key_value_heads).repeat_interleave(group, dim=1)
    value = by_head.narrow(1, heads + key_value_heads, key_value_heads).repeat_interleave(group, dim=1)
    scores = torch.matmul(query, key.transpose(2, 3)) * (float(head_width) ** -0.5)
    if causal:
        hidden = torch.ones(positions, positions, dtype=torch.bool, device=qkv.device).triu(1)
        if window > 0:
            hidden = hidden | torch.ones(positions, positions, dtype=torch.bool, device=qkv.device).tril(-window)
        scores = scores.masked_fill(hidden, -float("inf"))
    if document_offsets is not None:
        places = torch.arange(batch * positions, device=qkv.device)
        ends = document_offsets.narrow(0, 1, document_offsets.size(0) - 1).to(torch.int64)
        document = torch.bucketize(places, ends, right=True).reshape(batch, positions)
        foreign = document.unsqueeze(2) != document.unsqueeze(1)
        scores = scores.masked_fill(foreign.unsqueeze(1), -float("inf"))
    y = torch.matmul(torch.softmax(scores, dim=-1), value)
    return y.transpose(1, 2).reshape(batch, positions, heads * head_width).to(qkv.dtype)
