# SPDX-License-Identifier: MIT
"""Patterns of docs/attention.md as functions of FlexAttention, its lists of blocks, and a plain formula to check with.

B batch, H heads, T positions, D head width, R some of the queries."""
import math
import re

import torch
from torch.nn.attention.flex_attention import BlockMask

BLOCK_OF_WORD = 64  # side of the blocks of the word `blocks`


class Mask:
    """sees(b, h, q, k): whether query q of row b sees key k. The arguments are tensors that broadcast."""

    def __init__(self, sees):
        self.sees = sees

    def __and__(self, other):
        first, second = self.sees, other.sees
        return Mask(lambda b, h, q, k: first(b, h, q, k) & second(b, h, q, k))

    def __or__(self, other):
        first, second = self.sees, other.sees
        return Mask(lambda b, h, q, k: first(b, h, q, k) | second(b, h, q, k))


def drawn_blocks(positions, density, seed, device):
    """bool [blocks, blocks]: the blocks that the word `blocks` draws. docs/attention.md has the hash."""
    def mixed(x):
        x = (x ^ x >> 16) * 0x7feb352d & 0xffffffff
        x = (x ^ x >> 15) * 0x846ca68b & 0xffffffff
        return x ^ x >> 16

    block = torch.arange(-(-positions // BLOCK_OF_WORD), device=device)
    key = mixed(torch.tensor(seed ^ 0x9e3779b9, device=device))
    word = mixed(mixed(key + 2 * block & 0xffffffff)[:, None] ^ mixed(key + 2 * block + 1 & 0xffffffff)[None, :])
    return (word >> 8 < round(density * 2**24)) | (block[:, None] == block[None, :])


def document_of_position(positions, documents, device):
    """int32 [T]: document d of n begins at T d (d + 1) / (n (n + 1)), so each is longer than the one before."""
    begins = torch.tensor([positions * d * (d + 1) // (documents * (documents + 1)) for d in range(1, documents)], device=device)
    return torch.bucketize(torch.arange(positions, device=device), begins, right=True).int()


class Pattern:
    """A pattern with terms and documents, in the words of a row's shape: "causal & documents, 8 documents"."""

    def __init__(self, text, batch, positions, heads, device):
        self.text, self.positions, self.device = text, positions, device
        words, *others = re.split(r", (?=alibi|softcap|sinks|\d+ documents)", text)
        numbers = {"documents": 1, "softcap": 0}
        for other in others:
            found = re.fullmatch(r"(\d+) (documents)|(softcap) (\S+)|(alibi)", other)
            if not found:
                raise ValueError(f"'{other}' of '{text}' is not alibi, softcap NUMBER or NUMBER documents")
            name = found[2] or found[3] or found[5]
            numbers[name] = float(found[1] or found[4] or 1)
        self.softcap = numbers["softcap"]
        if "alibi" in numbers and heads & (heads - 1):
            raise ValueError(f"{heads} heads with alibi: only the slopes of a power of two are here")
        self.slope_H = torch.exp2(-8.0 * torch.arange(1, heads + 1, device=device) / heads) if "alibi" in numbers else None
        # Rows with documents have masks of their own, as they do in training.
        self.rows = batch if "documents" in words else 1
        document_BT = document_of_position(positions, int(numbers["documents"]), device).repeat(self.rows, 1)
        names = {
            "full": Mask(lambda b, h, q, k: q >= 0),
            "causal": Mask(lambda b, h, q, k: q >= k),
            "window": lambda n: Mask(lambda b, h, q, k: (q - k < n) & (k - q < n)),
            "dilated": lambda n, step: Mask(lambda b, h, q, k: ((q - k) % step == 0) & ((q - k).abs() < n * step)),
            "prefix": lambda n: Mask(lambda b, h, q, k: k < n),
            "global_": lambda n: Mask(lambda b, h, q, k: (q < n) | (k < n)),
            "blocks": self.blocks,
            "documents": Mask(lambda b, h, q, k: document_BT[b, q] == document_BT[b, k]),
        }
        # & and | of Python bind as in a pattern. eval may run any code, so the text must be trusted: tools/bench or the user writes it.
        try:
            self.mask = eval(words.replace("global(", "global_("), {"__builtins__": {}}, names)
        except (NameError, SyntaxError, TypeError) as error:
            raise ValueError(f"'{words}' is not a pattern of docs/attention.md: {error}") from error

    def blocks(self, density, seed):
        drawn = drawn_blocks(self.positions, density, seed, self.device)
        return Mask(lambda b, h, q, k: drawn[q // BLOCK_OF_WORD, k // BLOCK_OF_WORD])

    def score(self):
        """FlexAttention's score_mod; None if there are no terms."""
        softcap, slope_H = self.softcap, self.slope_H
        if slope_H is None:
            return (lambda score, b, h, q, k: softcap * torch.tanh(score / softcap)) if softcap else None
        if not softcap:
            return lambda score, b, h, q, k: score - slope_H[h] * (q - k).abs()
        return lambda score, b, h, q, k: softcap * torch.tanh(score / softcap) - slope_H[h] * (q - k).abs()

    def seen(self, query):
        """bool [rows, len(query), T]: the keys that these queries see."""
        place = torch.arange(self.positions, device=self.device)
        row = torch.arange(self.rows, device=self.device)
        return self.mask.sees(row[:, None, None], 0, query[None, :, None], place[None, None, :]).expand(self.rows, len(query), self.positions)

    def block_mask(self, block):
        """Returns FlexAttention's lists of blocks, and the number of pairs that are visible in `rows` rows.

        The mask is evaluated for 1024 queries at a time, because T x T booleans of long rows would not fit."""
        if self.positions % block:
            raise ValueError(f"{self.positions} positions are not a multiple of blocks of {block}")
        count, sides = [], self.positions // block
        for begin in range(0, self.positions, 8 * block):
            query = torch.arange(begin, min(begin + 8 * block, self.positions), device=self.device)
            count.append(self.seen(query).reshape(self.rows, -1, block, sides, block).sum((2, 4)))
        count = torch.cat(count, 1)[:, None]
        lists = []
        for chosen in ((count > 0) & (count < block * block), count == block * block):
            lists += [chosen.sum(-1, dtype=torch.int32), chosen.int().argsort(dim=-1, descending=True, stable=True).int()]
        mask = BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=block, mask_mod=self.mask.sees, seq_lengths=(self.positions, self.positions))
        return mask, int(count.sum())

    def attention(self, q, k, v, query):
        """The results [B, H, R, D] of some queries, from the definition in fp32."""
        q, k, v = (x.float() for x in (q[:, :, query], k, v))
        k, v = (x.repeat_interleave(q.size(1) // x.size(1), 1) for x in (k, v))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.size(3))
        if self.score():
            head, key = torch.arange(q.size(1), device=q.device)[:, None, None], torch.arange(self.positions, device=q.device)
            scores = self.score()(scores, None, head, query[:, None], key)
        return scores.masked_fill(~self.seen(query)[:, None], -math.inf).softmax(-1) @ v
