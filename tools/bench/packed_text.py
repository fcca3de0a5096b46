# SPDX-License-Identifier: MIT
"""Random tokens in documents of random lengths, packed into windows: the data of peer_decoder.py.

B batch, T positions, D head width."""
import math

import torch
from peer_timing import DEVICE

WINDOWS = 256  # of T tokens each, as in tools/random_data.cc
IGNORED = -100  # label without a loss


def document_ends(tokens, average):
    """The ends of documents of 1 to 2 average - 1 tokens, by the generator of tools/random_data.cc."""
    state, ends = 1, [0]
    while ends[-1] < tokens:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        ends.append(min(ends[-1] + 1 + (state >> 33) % (2 * average - 1), tokens))
    return ends[1:]


def frequencies(sizes):
    """Radians per position of each pair, fp64 [D / 2]. Long wavelengths are longer by a factor with the scaling of Llama 3.1."""
    half = sizes.head_width // 2
    frequency = sizes.rotary_base ** (-torch.arange(half).double() / half)
    scaling = sizes.rotary_scaling
    if scaling["type"] == "none":
        return frequency
    if scaling["type"] != "llama3":
        raise SystemExit(f"model.rotary_scaling.type: none or llama3 was expected, found {scaling['type']}")
    low, high = scaling["low_frequency"], scaling["high_frequency"]
    turns = scaling["original_sequence"] * frequency / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return frequency * (kept + (1 - kept) / scaling["factor"])


def rotary_tables(sizes):
    """Cosines and sines float32 [T, D / 2]."""
    angle = torch.outer(torch.arange(sizes.sequence).double(), frequencies(sizes))
    return angle.cos().float(), angle.sin().float()


class Text:
    """Random tokens in windows of T tokens, and documents of drawn lengths, the same as in tools/random_data.cc."""

    def __init__(self, sizes, document_tokens):
        """document_tokens: the average length of documents; None joins them."""
        self.sequence, count = sizes.sequence, WINDOWS * sizes.sequence + 1
        self.tokens = torch.randint(sizes.vocabulary, (count,), device=DEVICE)
        self.begin = None  # where the document of each token begins
        if document_tokens:
            ends = torch.tensor([0, *document_ends(count, document_tokens)], device=DEVICE)
            self.begin = ends[torch.bucketize(torch.arange(count, device=DEVICE), ends, right=True) - 1]
        self.cosine, self.sine = (table.to(DEVICE) for table in rotary_tables(sizes))

    def batch(self, windows):
        """windows int64 [B] on the device: inputs, labels, and start_BT, the position where the document of each token starts, or None."""
        place = windows[:, None] * self.sequence + torch.arange(self.sequence, device=DEVICE)
        labels = self.tokens[place + 1]
        if self.begin is None:
            return self.tokens[place], labels, None
        labels = labels.masked_fill(self.begin[place + 1] == place + 1, IGNORED)  # nothing predicts the first token of a document
        return self.tokens[place], labels, (self.begin[place] - place[:, :1]).clamp(min=0)

    def rotary(self, start_BT):
        """Cosines and sines [B or 1, T, 1, D / 2]. Positions start at 0 in each document."""
        position = torch.arange(self.sequence, device=DEVICE) - (0 if start_BT is None else start_BT)
        return [table[position].view(-1, self.sequence, 1, table.size(1)) for table in (self.cosine, self.sine)]
