# SPDX-License-Identifier: MIT
"""Which pattern of attention a mask is, if the graph has the mask and not its caller."""
import torch

import torch_calls

MOST_POSITIONS = 8192  # of a mask that is looked at


def visible_pairs(graph, attention, kind, name):
    """Returns the pairs that a mask shows, as a table of queries and keys; None if it is not known, or differs between rows or heads.
    `kind` is hidden or shown, of a mask of bools, or added, of one that is added to the scores."""
    mask = torch_calls.constant(graph, name)
    if mask is None or mask.dim() < 2 or max(mask.shape[-2:]) > MOST_POSITIONS:
        return None
    tables = mask.reshape(-1, *mask.shape[-2:])
    if not (tables == tables[:1]).all():
        return None
    table = tables[0].expand(attention.queries, attention.positions) if 1 in tables[0].shape else tables[0]
    if kind == "added" and table.dtype != torch.bool:
        hidden = table <= -1e4
        return ~hidden if (table[~hidden] == 0).all() else None
    return ~table.bool() if kind == "hidden" else table.bool()


def pattern_of(table):
    """Returns the text of the pattern that shows exactly these pairs, or None."""
    positions = len(table)
    if table.shape != (positions, positions):
        return None
    query, key = torch.arange(positions)[:, None], torch.arange(positions)[None, :]
    width, prefix = int(table[-1].sum()), int(table[0].sum())
    causal, window = key <= query, (query - key).abs() < width
    patterns = {"full": torch.ones_like(causal), "causal": causal, f"causal & window({width})": causal & window, f"window({width})": window,
                f"causal | prefix({prefix})": causal | (key < prefix)}  # fmt: skip
    return next((text for text, shown in patterns.items() if torch.equal(table, shown)), None)
