# SPDX-License-Identifier: MIT
"""Level triton of attention, forward. A program has a tile of queries of one head and reads the list of the tiles of keys
that it meets: partial ones first, which evaluate the pattern, then full ones, which do not."""
import triton
import triton.language as tl

from kernels.attention.attention_choices import LISTS, PATTERN, SIZES, attention_kernel
from kernels.attention.attention_document_tiles_triton import DOCUMENT_TILES
from kernels.attention.attention_tile_triton import (ALIBI, ALL_TILES, FULL_TILES, INFINITY, LOG2_E, PARTIAL_TILES, SOFTCAP, capped, load_tile,
                                                     place_of_program, rows_of_sequence, scales_of, store_tile, visible)


@triton.jit
def meet_tiles(total, largest, weights, query, query_row, key_start, value_start, row_stride, head_width, positions, indices, first, middle, last,
               inner_scale, scale, slope, pattern, HEAD: tl.constexpr, WIDTH: tl.constexpr, KEYS: tl.constexpr, MASK: tl.constexpr,
               TERMS: tl.constexpr, TILES: tl.constexpr):
    """The online softmax over the tiles of keys first <= i < last of a list. Tiles from `middle` on are full. Scores are
    powers of two, so `scale` includes log2(e)."""
    INSIDE: tl.constexpr = TILES == FULL_TILES
    row_in_tile = tl.arange(0, KEYS)
    tile = tl.load(indices + first, mask=first < last, other=0)
    for i in range(first, last):
        next_tile = tl.load(indices + i + 1, mask=i + 1 < last, other=0)
        start = (tile * KEYS).to(tl.int64) * row_stride
        rows_left = positions - tile * KEYS
        key = load_tile(key_start + start, row_in_tile, row_in_tile * row_stride, rows_left, head_width, HEAD, WIDTH, INSIDE)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee")
        if SOFTCAP & TERMS:
            scores = capped(scores, inner_scale, query, TERMS)
        if ALIBI & TERMS:
            bias = (query_row - tile * KEYS).to(tl.float32)[:, None] * slope - row_in_tile.to(tl.float32)[None, :] * slope
            scores = scores * scale - tl.abs(bias)
        if TILES == PARTIAL_TILES:
            scores = tl.where(visible(query_row[:, None], tile * KEYS + row_in_tile[None, :], pattern, MASK), scores, -INFINITY)
        elif TILES == ALL_TILES:
            if i < middle:
                scores = tl.where(visible(query_row[:, None], tile * KEYS + row_in_tile[None, :], pattern, MASK), scores, -INFINITY)
        if ALIBI & TERMS:
            new_largest = tl.maximum(largest, tl.max(scores, 1))
        else:
            new_largest = tl.maximum(largest, tl.max(scores, 1) * scale)
        # A row without a visible key yet has -inf here.
        shift = new_largest if INSIDE else tl.where(new_largest == -INFINITY, 0.0, new_largest)
        decay = tl.exp2(largest - shift)
        if ALIBI & TERMS:
            share = tl.exp2(scores - shift[:, None])
        else:
            share = tl.exp2(scores * scale - shift[:, None])
        weights = weights * decay + tl.sum(share, 1)
        value = load_tile(value_start + start, row_in_tile, row_in_tile * row_stride, rows_left, head_width, HEAD, WIDTH, INSIDE)
        total = tl.dot(share.to(value.dtype), value, total * decay[:, None], input_precision="ieee")
        largest = new_largest
        tile = next_tile
    return total, largest, weights


@triton.jit
def forward(query, key_value, y, logsumexp, rows, indices, documents, program, slopes, sinks, query_count, first_query, positions, heads, key_value_heads,
            head_width, query_width, key_width, step, tiles, own_lists, together, scale, softcap, instructions, lowest, highest, near_lowest, near_highest,
            stride, span, prefix, border, hash_key, threshold, HEAD: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr,
            MASK: tl.constexpr, TERMS: tl.constexpr, ONE_LOOP: tl.constexpr):
    width = WIDTH if WIDTH else head_width
    sequence, head, tile, first, middle, last = place_of_program(rows, tiles, own_lists, heads, step, together)
    batch, residue, keys_of_sequence, first_key = rows_of_sequence(sequence, step, positions)
    queries_of_sequence, first_row = tl.cdiv(query_count - residue, step), batch * query_count + residue
    key_start = key_value + first_key * key_width + head // (heads // key_value_heads) * width
    value_start = key_start + key_value_heads * width
    pattern = (first_query + queries_of_sequence, keys_of_sequence, documents + batch * positions, program, instructions, lowest, highest, near_lowest,
               near_highest, stride, span, prefix, border, hash_key, threshold)

    row_in_tile = tl.arange(0, QUERIES)
    row_in_sequence = tile * QUERIES + row_in_tile
    query_row = first_query + row_in_sequence
    tile_row = first_row + (tile * QUERIES).to(tl.int64) * step
    rows_left = queries_of_sequence - tile * QUERIES
    queries = load_tile(query + tile_row * query_width + head * width, row_in_tile, row_in_tile * (query_width * step), rows_left, head_width, HEAD,
                        WIDTH, False)
    inner_scale, scale = scales_of(scale, softcap, TERMS)
    slope = scale
    if ALIBI & TERMS:
        slope = tl.load(slopes + head) * (LOG2_E * step)
    largest = tl.zeros([QUERIES], tl.float32) + tl.load(sinks + head) * LOG2_E
    weights = tl.full([QUERIES], 1, tl.float32)
    total = tl.zeros([QUERIES, HEAD], tl.float32)
    row_stride = key_width * step
    if ONE_LOOP:
        total, largest, weights = meet_tiles(total, largest, weights, queries, query_row, key_start, value_start, row_stride, head_width,
                                             keys_of_sequence, indices, first, middle, last, inner_scale, scale, slope, pattern, HEAD, WIDTH, KEYS,
                                             MASK, TERMS, ALL_TILES)
    else:
        total, largest, weights = meet_tiles(total, largest, weights, queries, query_row, key_start, value_start, row_stride, head_width,
                                             keys_of_sequence, indices, first, middle, middle, inner_scale, scale, slope, pattern, HEAD, WIDTH, KEYS,
                                             MASK, TERMS, PARTIAL_TILES)
        total, largest, weights = meet_tiles(total, largest, weights, queries, query_row, key_start, value_start, row_stride, head_width,
                                             keys_of_sequence, indices, middle, middle, last, inner_scale, scale, slope, pattern, HEAD, WIDTH, KEYS,
                                             MASK, TERMS, FULL_TILES)
    statistics = (batch * heads + head) * query_count + residue + step * row_in_sequence
    tl.store(logsumexp + statistics, (largest + tl.log2(weights)) / LOG2_E, mask=row_in_sequence < queries_of_sequence)
    # A row that sees no key has weights 0 and totals 0.
    total = total / tl.where(weights == 0, 1.0, weights)[:, None]
    y_width = heads * width
    store_tile(y + tile_row * y_width + head * width, row_in_tile, row_in_tile * (y_width * step), rows_left, head_width, total, HEAD, WIDTH)


KERNELS = {
    "attention_document_tiles": DOCUMENT_TILES,
    "attention_forward": attention_kernel(
        forward,
        arguments=dict(query="*T", key_value="*T", y="*T", logsumexp="*fp32", **LISTS, **SIZES, **PATTERN),
        aligned=("query", "key_value", "y", "query_width", "key_width"),
        heads="heads",
        tiles_of_64=dict(QUERIES=64, KEYS=64, warps=4, stages=2, ONE_LOOP=1, registers=128),
        tiles_of_128=dict(QUERIES=64, KEYS=64, warps=4, stages=3, ONE_LOOP=0),
        tiles_of_256=dict(QUERIES=64, KEYS=64, warps=8, stages=2, ONE_LOOP=0),
    ),
}
