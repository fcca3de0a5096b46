# SPDX-License-Identifier: MIT
# Definition of attention. B batch, Q queries, T keys, H query heads, K key and value heads, D head width
from typing import List, Optional

import torch


# The hash in pattern/block_hash.h, on numbers below 2^32 in int64. TorchScript has no hexadecimal numbers: 2146121005 =
# 0x7feb352d, -2073254261 = 0x846ca68b - 2^32 and 4294967295 = 2^32 - 1.
def mixed(x: torch.Tensor) -> torch.Tensor:
    x = (torch.bitwise_xor(x, torch.bitwise_right_shift(x, 16)) * 2146121005) & 4294967295
    x = (torch.bitwise_xor(x, torch.bitwise_right_shift(x, 15)) * -2073254261) & 4294967295
    return torch.bitwise_xor(x, torch.bitwise_right_shift(x, 16))


def sees_block(query: torch.Tensor, key: torch.Tensor, hash_key: int, threshold: int) -> torch.Tensor:
    row = torch.div(query, 64, rounding_mode="floor")
    column = torch.div(key, 64, rounding_mode="floor")
    word = mixed(torch.bitwise_xor(mixed((hash_key + 2 * row) & 4294967295), mixed((hash_key + 2 * column + 1) & 4294967295)))
    return (row == column) | (torch.bitwise_right_shift(word, 8) < threshold)


# Which pairs of Q queries and all keys are visible: [Q, T], or with documents [B, 1, Q, T]. `program` has three integers
# for each instruction in pattern/program.h.
def visible(program: List[int], document: torch.Tensor, first_query: int, queries: int) -> torch.Tensor:
    key = torch.arange(document.size(1), device=document.device).unsqueeze(0)
    query = key.narrow(1, first_query, queries).transpose(0, 1)
    query_document = document.narrow(1, first_query, queries)
    stack: List[torch.Tensor] = []
    for i in range(0, len(program), 3):
        operation, first, second = program[i], program[i + 1], program[i + 2]
        if operation < 2:
            upper = stack.pop()
            lower = stack.pop()
            stack.append(lower & upper if operation == 0 else lower | upper)
        elif operation == 2:
            stack.append((query - key >= first) & (query - key <= second))
        elif operation == 3:
            stack.append((torch.abs(query - key) % first == 0) & (torch.abs(query - key) < second))
        elif operation == 4:
            stack.append((key < first).expand(query.size(0), -1))
        elif operation == 5:
            stack.append(torch.minimum(query, key) < first)
        elif operation == 6:
            stack.append(sees_block(query, key, first, second))
        else:
            stack.append((query_document.unsqueeze(2) == document.unsqueeze(1)).unsqueeze(1))
    return stack[0]


# The slopes that score_terms.h explains, as numbers of the type of `like`.
def alibi_slopes(heads: int, like: torch.Tensor) -> torch.Tensor:
    power = 1
    while 2 * power <= heads:
        power = 2 * power
    head = torch.arange(heads, dtype=like.dtype, device=like.device)
    return torch.exp2(torch.where(head < power, -8.0 * (head + 1.0), -4.0 * (2.0 * (head - power) + 1.0)) / power)


def split_heads(rows: torch.Tensor, head_width: int) -> torch.Tensor:
    return rows.reshape(rows.size(0), rows.size(1), rows.size(2) // head_width, head_width).transpose(1, 2)


# Scores of all pairs that are visible, and -inf of others: [B, H, Q, T]. The queries [B, H, Q, D] are positions from
# `first_query` on and heads from `first_head` on of `all_heads` heads, and there are the keys [B, K, T, D] of whole rows. An
# empty program sees every pair. `document_offsets` are as in attention.h, and `softcap` 0 is none.
def scores_of(
    query: torch.Tensor,
    key: torch.Tensor,
    program: List[int],
    document_offsets: Optional[torch.Tensor],
    alibi: bool,
    softcap: float,
    first_query: int,
    first_head: int,
    all_heads: int,
) -> torch.Tensor:
    heads, queries, head_width = query.size(1), query.size(2), query.size(3)
    batch, positions = key.size(0), key.size(2)
    key = key.repeat_interleave(heads // key.size(1), dim=1)
    scores = torch.matmul(query, key.transpose(2, 3)) * (float(head_width) ** -0.5)
    if softcap != 0.0:
        scores = softcap * torch.tanh(scores / softcap)
    if alibi:
        place = torch.arange(positions, device=query.device)
        distance = torch.abs(place.narrow(0, first_query, queries).unsqueeze(1) - place)
        slopes = alibi_slopes(all_heads, query).narrow(0, first_head, heads)
        scores = scores - slopes.reshape(-1, 1, 1) * distance
    if len(program) > 0:
        document = torch.arange(batch * positions, device=query.device)
        if document_offsets is not None:
            ends = document_offsets.narrow(0, 1, document_offsets.size(0) - 1).to(torch.int64)
            document = torch.bucketize(document, ends, right=True)
        hidden = torch.logical_not(visible(program, document.reshape(batch, positions), first_query, queries))
        scores = scores.masked_fill(hidden, -float("inf"))
    return scores


# `sinks` [heads] are scores of a key whose value is 0. With `key_value`, the keys and values of whole rows, qkv has only
# queries: the positions from `first_query` on. `heads` may be a part of `all_heads` heads, from `first_head` on; 0 are all.
def attention(
    qkv: torch.Tensor,
    heads: int,
    key_value_heads: int,
    program: List[int],
    document_offsets: Optional[torch.Tensor] = None,
    alibi: bool = False,
    softcap: float = 0.0,
    sinks: Optional[torch.Tensor] = None,
    key_value: Optional[torch.Tensor] = None,
    first_query: int = 0,
    first_head: int = 0,
    all_heads: int = 0,
) -> torch.Tensor:
    batch, queries = qkv.size(0), qkv.size(1)
    wide = qkv.to(torch.promote_types(qkv.dtype, torch.float32))
    if key_value is None:
        head_width = qkv.size(2) // (heads + 2 * key_value_heads)
        both = split_heads(wide, head_width).narrow(1, heads, 2 * key_value_heads)
    else:
        head_width = qkv.size(2) // heads
        both = split_heads(key_value.to(wide.dtype), head_width)
    all_heads = heads if all_heads == 0 else all_heads
    group = heads // key_value_heads
    query = split_heads(wide, head_width).narrow(1, 0, heads)
    key = both.narrow(1, 0, key_value_heads)
    value = both.narrow(1, key_value_heads, key_value_heads).repeat_interleave(group, dim=1)
    scores = scores_of(query, key, program, document_offsets, alibi, softcap, first_query, first_head, all_heads)
    if sinks is not None:
        sink = sinks.to(wide.dtype).reshape(-1, 1, 1).expand(batch, heads, queries, 1)
        scores = torch.cat([scores, sink], dim=3)
        value = torch.cat([value, value.new_zeros([batch, heads, 1, head_width])], dim=2)
    y = torch.matmul(torch.softmax(scores, dim=-1), value)
    return y.transpose(1, 2).reshape(batch, queries, heads * head_width).to(qkv.dtype)
