# SPDX-License-Identifier: MIT
# Definition of neighbor_aggregate and neighbor_attention. S sources, T targets, E edges, H heads, F features
# torch.embedding selects rows as indexing does, and adds their gradients in an order that is always the same.
# The edges of target t are those from offsets[t] to offsets[t + 1]; rows[e] is the target of edge e, columns[e] its
# source.
from typing import Optional

import torch


def sum_over_edges(messages: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.segment_reduce(messages, "sum", offsets=offsets, unsafe=True, initial=0.0)


# y[t] = the sum, mean or maximum of weight[e] * x[columns[e]] over the edges e of t, 0 if there are none.
def neighbor_aggregate(
    x: torch.Tensor, offsets: torch.Tensor, columns: torch.Tensor, rows: torch.Tensor, edge_weight: Optional[torch.Tensor], reduction: str
) -> torch.Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    messages = torch.embedding(x.to(wide), columns)
    if edge_weight is not None:
        messages = messages * edge_weight.to(wide).unsqueeze(1)
    if reduction == "sum":
        y = sum_over_edges(messages, offsets)
    elif reduction == "mean":
        y = sum_over_edges(messages, offsets) / torch.diff(offsets).clamp(min=1).unsqueeze(1)
    else:
        # The first of equal maxima gets the gradient. A last message of zeros serves targets without edges.
        values = messages.detach()
        edges = values.size(0)
        largest = torch.segment_reduce(values, "max", offsets=offsets, unsafe=True)
        taken = (values == largest[rows]) | values.isnan()
        edge = torch.arange(edges, device=x.device, dtype=torch.float64).unsqueeze(1)
        first = torch.segment_reduce(torch.where(taken, edge, float(edges)), "min", offsets=offsets, unsafe=True, initial=float(edges))
        padded = torch.cat((messages, messages.new_zeros(1, messages.size(1))))
        y = padded.gather(0, first.to(torch.int64))
    return y.to(x.dtype)


# y[t, h] = the sum over the edges e of t of softmax(score[:, h])[e] * x[columns[e], h]
def neighbor_attention(
    x: torch.Tensor, score_source: torch.Tensor, score_target: torch.Tensor, offsets: torch.Tensor, columns: torch.Tensor, rows: torch.Tensor, negative_slope: float
) -> torch.Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    score = torch.embedding(score_source.to(wide), columns) + torch.embedding(score_target.to(wide), rows)
    score = torch.where(score > 0, score, score * negative_slope)
    largest = torch.segment_reduce(score.detach(), "max", offsets=offsets, unsafe=True)
    share = torch.exp(score - largest[rows])
    share = share / torch.embedding(sum_over_edges(share, offsets), rows)
    messages = torch.embedding(x.to(wide).flatten(1), columns).view(-1, x.size(1), x.size(2)) * share.unsqueeze(2)
    return sum_over_edges(messages.flatten(1), offsets).view(-1, x.size(1), x.size(2)).to(x.dtype)
