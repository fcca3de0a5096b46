# SPDX-License-Identifier: MIT
"""Level triton of attention, backward. One kernel writes the gradients of queries, and another the gradients of keys and values,
which reads the transposed lists. No value is added by two programs, so results are deterministic."""
import triton
import triton.language as tl

from kernels.attention.attention_choices import LISTS, PATTERN, SIZES, attention_kernel
from kernels.attention.attention_tile_triton import (ALIBI, ALL_TILES, FULL_TILES, INFINITY, LOG2_E, MAYBE, PARTIAL_TILES, SOFTCAP, capped, load_tile,
                                                     place_of_program, rows_of_sequence, scales_of, store_tile, visible)


@triton.jit
def shares(products, distance_in_rows, row_sum, inner_scale, scale, slope, factors, TERMS: tl.constexpr):
    """The probabilities of a tile, and what the softcap multiplies gradients of scores by. `factors` is one factor of the
    products."""
    steepness = products
    if SOFTCAP & TERMS:
        products = capped(products, inner_scale, factors, TERMS)
        steepness = 1 - products * products
        if MAYBE & TERMS:
            steepness = tl.where(inner_scale > 0, steepness, 1.0)
    if ALIBI & TERMS:
        return tl.exp2(products * scale - tl.abs(distance_in_rows) - row_sum), steepness
    else:
        return tl.exp2(products * scale - row_sum), steepness


@triton.jit
def gradient_of_queries(total, query, grad, row_sum, delta, query_row, key_start, value_start, row_stride, head_width, positions, indices, first, middle,
                        last, inner_scale, scale, slope, pattern, HEAD: tl.constexpr, WIDTH: tl.constexpr, KEYS: tl.constexpr, MASK: tl.constexpr,
                        TERMS: tl.constexpr, TILES: tl.constexpr):
    INSIDE: tl.constexpr = TILES == FULL_TILES
    row_in_tile = tl.arange(0, KEYS)
    tile = tl.load(indices + first, mask=first < last, other=0)
    for i in range(first, last):
        next_tile = tl.load(indices + i + 1, mask=i + 1 < last, other=0)
        start = (tile * KEYS).to(tl.int64) * row_stride
        rows_left = positions - tile * KEYS
        key = load_tile(key_start + start, row_in_tile, row_in_tile * row_stride, rows_left, head_width, HEAD, WIDTH, INSIDE)
        value = load_tile(value_start + start, row_in_tile, row_in_tile * row_stride, rows_left, head_width, HEAD, WIDTH, INSIDE)
        distance = (query_row - tile * KEYS).to(tl.float32)[:, None] * slope - row_in_tile.to(tl.float32)[None, :] * slope
        products = tl.dot(query, tl.trans(key), input_precision="ieee")
        share, steepness = shares(products, distance, row_sum[:, None], inner_scale, scale, slope, query, TERMS)
        if TILES == PARTIAL_TILES:
            share = tl.where(visible(query_row[:, None], tile * KEYS + row_in_tile[None, :], pattern, MASK), share, 0.0)
        elif TILES == ALL_TILES:
            if i < middle:
                share = tl.where(visible(query_row[:, None], tile * KEYS + row_in_tile[None, :], pattern, MASK), share, 0.0)
        change = share * (tl.dot(grad, tl.trans(value), input_precision="ieee") - delta[:, None])
        if SOFTCAP & TERMS:
            change = change * steepness
        total = tl.dot(change.to(key.dtype), key, total, input_precision="ieee")
        tile = next_tile
    return total


@triton.jit
def backward_query(query, key_value, grad_y, y, logsumexp, row_sums, deltas, grad_query, grad_sinks, rows, indices, documents, program, slopes, sinks,
                   padded_rows, query_count, first_query, positions, heads, key_value_heads, head_width, query_width, key_width, step, tiles, own_lists,
                   together, scale, softcap, instructions, lowest, highest, near_lowest, near_highest, stride, span, prefix, border, hash_key, threshold,
                   HEAD: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, HEADS: tl.constexpr, MASK: tl.constexpr,
                   TERMS: tl.constexpr, ONE_LOOP: tl.constexpr):
    """Also writes what backward_key reads for each row: the logsumexp as a power of two, and delta, the sum of grad_y * y
    over the head. Both are [sequences, heads, padded_rows] with values that cancel behind the last row. It also
    writes the part of this tile in the gradient of its head's sink. With HEADS 2 a tile has the queries of two heads that
    share keys, one after the other, and no alibi."""
    width = WIDTH if WIDTH else head_width
    sequence, head, tile, first, middle, last = place_of_program(rows, tiles, own_lists, heads // HEADS, step, together)
    head = head * HEADS
    batch, residue, keys_of_sequence, first_key = rows_of_sequence(sequence, step, positions)
    queries_of_sequence, first_row = tl.cdiv(query_count - residue, step), batch * query_count + residue
    row_in_tile, head_in_tile = tl.arange(0, HEADS * QUERIES) % QUERIES, tl.arange(0, HEADS * QUERIES) // QUERIES
    row_in_sequence = tile * QUERIES + row_in_tile
    query_row = first_query + row_in_sequence
    rows_left = queries_of_sequence - tile * QUERIES
    tile_row = first_row + (tile * QUERIES).to(tl.int64) * step
    row_stride, y_width = key_width * step, heads * width
    key_start = key_value + first_key * key_width + head // (heads // key_value_heads) * width
    value_start = key_start + key_value_heads * width
    pattern = (first_query + queries_of_sequence, keys_of_sequence, documents + batch * positions, program, instructions, lowest, highest, near_lowest,
               near_highest, stride, span, prefix, border, hash_key, threshold)

    query_place = row_in_tile * (query_width * step) + head_in_tile * width
    y_place = row_in_tile * (y_width * step) + head_in_tile * width
    queries = load_tile(query + tile_row * query_width + head * width, row_in_tile, query_place, rows_left, head_width, HEAD, WIDTH, False)
    grad = load_tile(grad_y + tile_row * y_width + head * width, row_in_tile, y_place, rows_left, head_width, HEAD, WIDTH, False)
    result = load_tile(y + tile_row * y_width + head * width, row_in_tile, y_place, rows_left, head_width, HEAD, WIDTH, False)
    products = tl.sum(grad.to(tl.float32) * result.to(tl.float32), 1)
    statistics = (batch * heads + head + head_in_tile) * query_count + residue + step * row_in_sequence
    row_sum = tl.load(logsumexp + statistics, mask=row_in_sequence < queries_of_sequence, other=INFINITY) * LOG2_E
    place = (sequence.to(tl.int64) * heads + head + head_in_tile) * padded_rows + row_in_sequence
    tl.store(row_sums + place, row_sum)
    tl.store(deltas + place, products)
    sink_gradient = tl.exp2(tl.load(sinks + head + head_in_tile) * LOG2_E - row_sum) * products
    for i in tl.static_range(HEADS):
        tl.store(grad_sinks + (sequence.to(tl.int64) * heads + head + i) * tiles + tile, -tl.sum(tl.where(head_in_tile == i, sink_gradient, 0.0)))
    gradient_scale = scale
    inner_scale, scale = scales_of(scale, softcap, TERMS)
    slope = scale
    if ALIBI & TERMS:
        slope = tl.load(slopes + head) * (LOG2_E * step)
    total = tl.zeros([HEADS * QUERIES, HEAD], tl.float32)
    if ONE_LOOP:
        total = gradient_of_queries(total, queries, grad, row_sum, products, query_row, key_start, value_start, row_stride, head_width, keys_of_sequence,
                                    indices, first, middle, last, inner_scale, scale, slope, pattern, HEAD, WIDTH, KEYS, MASK, TERMS, ALL_TILES)
    else:
        total = gradient_of_queries(total, queries, grad, row_sum, products, query_row, key_start, value_start, row_stride, head_width, keys_of_sequence,
                                    indices, first, middle, middle, inner_scale, scale, slope, pattern, HEAD, WIDTH, KEYS, MASK, TERMS, PARTIAL_TILES)
        total = gradient_of_queries(total, queries, grad, row_sum, products, query_row, key_start, value_start, row_stride, head_width, keys_of_sequence,
                                    indices, middle, middle, last, inner_scale, scale, slope, pattern, HEAD, WIDTH, KEYS, MASK, TERMS, FULL_TILES)
    store_tile(grad_query + tile_row * query_width + head * width, row_in_tile, query_place, rows_left, head_width, total * gradient_scale, HEAD, WIDTH)


@triton.jit
def gradient_of_keys(key_total, value_total, key, value, key_row, query_start, grad_start, row_sums, deltas, slopes, row_stride, y_stride, step, query_count,
                     first_query, padded_rows, head_width, width, first_head, shared_by, indices, first, middle, last, inner_scale, scale, slope, pattern,
                     HEAD: tl.constexpr, WIDTH: tl.constexpr, QUERIES: tl.constexpr, MASK: tl.constexpr, TERMS: tl.constexpr, TILES: tl.constexpr):
    """One loop over the heads that share the keys and, inside, over a list of tiles of queries. Scores are transposed:
    [key, query]."""
    INSIDE: tl.constexpr = TILES == FULL_TILES
    row_in_tile = tl.arange(0, QUERIES)
    tile = tl.load(indices + first, mask=first < last, other=0)
    i = first
    head = 0
    for _ in range((last - first) * shared_by):
        ended = i + 1 == last
        i_of_next = tl.where(ended, first, i + 1)
        next_tile = tl.load(indices + i_of_next)
        first_row = (tile * QUERIES).to(tl.int64)
        rows_left = query_count - tile * QUERIES
        first_of_tile = first_query + tile * QUERIES
        query_tile, grad_tile = query_start + first_row * row_stride + head * width, grad_start + first_row * y_stride + head * width
        query = load_tile(query_tile, row_in_tile, row_in_tile * row_stride, rows_left, head_width, HEAD, WIDTH, INSIDE)
        grad = load_tile(grad_tile, row_in_tile, row_in_tile * y_stride, rows_left, head_width, HEAD, WIDTH, INSIDE)
        place = head.to(tl.int64) * padded_rows + tile * QUERIES
        row_sum = tl.load(row_sums + place + row_in_tile)
        delta = tl.load(deltas + place + row_in_tile)
        if ALIBI & TERMS:
            slope = tl.load(slopes + first_head + head) * (LOG2_E * step)
        distance = (key_row - first_of_tile).to(tl.float32)[:, None] * slope - row_in_tile.to(tl.float32)[None, :] * slope
        products = tl.dot(key, tl.trans(query), input_precision="ieee")
        share, steepness = shares(products, distance, row_sum[None, :], inner_scale, scale, slope, key, TERMS)
        if TILES == PARTIAL_TILES:
            share = tl.where(visible(first_of_tile + row_in_tile[None, :], key_row[:, None], pattern, MASK), share, 0.0)
        elif TILES == ALL_TILES:
            if i < middle:
                share = tl.where(visible(first_of_tile + row_in_tile[None, :], key_row[:, None], pattern, MASK), share, 0.0)
        value_total = tl.dot(share.to(grad.dtype), grad, value_total, input_precision="ieee")
        change = share * (tl.dot(value, tl.trans(grad), input_precision="ieee") - delta[None, :])
        if SOFTCAP & TERMS:
            change = change * steepness
        key_total = tl.dot(change.to(query.dtype), query, key_total, input_precision="ieee")
        head += ended.to(tl.int32)
        i = i_of_next
        tile = next_tile
    return key_total, value_total


@triton.jit
def backward_key(query, key_value, grad_y, row_sums, deltas, grad_key_value, rows, indices, documents, program, slopes, sinks, padded_rows, query_count,
                 first_query, positions, heads, key_value_heads, head_width, query_width, key_width, step, tiles, own_lists, together, scale, softcap,
                 instructions, lowest, highest, near_lowest, near_highest, stride, span, prefix, border, hash_key, threshold, HEAD: tl.constexpr,
                 WIDTH: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, MASK: tl.constexpr, TERMS: tl.constexpr, ONE_LOOP: tl.constexpr):
    width = WIDTH if WIDTH else head_width
    sequence, key_head, tile, first, middle, last = place_of_program(rows, tiles, own_lists, key_value_heads, step, together)
    batch, residue, keys_of_sequence, first_key = rows_of_sequence(sequence, step, positions)
    queries_of_sequence, first_row = tl.cdiv(query_count - residue, step), batch * query_count + residue
    row_in_tile = tl.arange(0, KEYS)
    key_row = tile * KEYS + row_in_tile
    rows_left = keys_of_sequence - tile * KEYS
    shared_by = heads // key_value_heads
    first_head = key_head * shared_by
    row_stride, y_width = query_width * step, heads * width
    key_place = (first_key + (tile * KEYS).to(tl.int64) * step) * key_width + key_head * width
    value_place = key_place + key_value_heads * width
    query_start = query + first_row * query_width + first_head * width
    grad_start = grad_y + first_row * y_width + first_head * width
    statistics = (sequence.to(tl.int64) * heads + first_head) * padded_rows
    pattern = (first_query + queries_of_sequence, keys_of_sequence, documents + batch * positions, program, instructions, lowest, highest, near_lowest,
               near_highest, stride, span, prefix, border, hash_key, threshold)

    key = load_tile(key_value + key_place, row_in_tile, row_in_tile * (key_width * step), rows_left, head_width, HEAD, WIDTH, False)
    value = load_tile(key_value + value_place, row_in_tile, row_in_tile * (key_width * step), rows_left, head_width, HEAD, WIDTH, False)
    gradient_scale = scale
    inner_scale, scale = scales_of(scale, softcap, TERMS)
    key_total = tl.zeros([KEYS, HEAD], tl.float32)
    value_total = tl.zeros([KEYS, HEAD], tl.float32)
    if ONE_LOOP:
        key_total, value_total = gradient_of_keys(
            key_total, value_total, key, value, key_row, query_start, grad_start, row_sums + statistics, deltas + statistics, slopes, row_stride,
            y_width * step, step, queries_of_sequence, first_query, padded_rows, head_width, width, first_head, shared_by, indices, first, middle, last,
            inner_scale, scale, scale, pattern, HEAD, WIDTH, QUERIES, MASK, TERMS, ALL_TILES)
    else:
        key_total, value_total = gradient_of_keys(
            key_total, value_total, key, value, key_row, query_start, grad_start, row_sums + statistics, deltas + statistics, slopes, row_stride,
            y_width * step, step, queries_of_sequence, first_query, padded_rows, head_width, width, first_head, shared_by, indices, first, middle, middle,
            inner_scale, scale, scale, pattern, HEAD, WIDTH, QUERIES, MASK, TERMS, PARTIAL_TILES)
        key_total, value_total = gradient_of_keys(
            key_total, value_total, key, value, key_row, query_start, grad_start, row_sums + statistics, deltas + statistics, slopes, row_stride,
            y_width * step, step, queries_of_sequence, first_query, padded_rows, head_width, width, first_head, shared_by, indices, middle, middle, last,
            inner_scale, scale, scale, pattern, HEAD, WIDTH, QUERIES, MASK, TERMS, FULL_TILES)
    store_tile(grad_key_value + key_place, row_in_tile, row_in_tile * (key_width * step), rows_left, head_width, key_total * gradient_scale, HEAD, WIDTH)
    store_tile(grad_key_value + value_place, row_in_tile, row_in_tile * (key_width * step), rows_left, head_width, value_total, HEAD, WIDTH)


KERNELS = {
    "attention_backward_query": attention_kernel(
        backward_query,
        arguments=dict(query="*T", key_value="*T", grad_y="*T", y="*T", logsumexp="*fp32", row_sums="*fp32", deltas="*fp32", grad_query="*T",
                       grad_sinks="*fp32", **LISTS, padded_rows="i32", **SIZES, **PATTERN),
        aligned=("query", "key_value", "grad_y", "y", "grad_query", "query_width", "key_width"),
        heads="heads",
        tiles_of_64=dict(QUERIES=64, KEYS=64, warps=4, stages=2, ONE_LOOP=1, registers=128),
        tiles_of_128=dict(QUERIES=128, KEYS=64, warps=8, stages=3, ONE_LOOP=0),
        tiles_of_256=dict(QUERIES=64, KEYS=32, warps=8, stages=2, ONE_LOOP=0),
        block_tiles=(dict(QUERIES=64, KEYS=64, warps=4, stages=2, ONE_LOOP=0), dict(QUERIES=64, KEYS=64, HEADS=2, warps=8, stages=3, ONE_LOOP=0)),
    ),
    # Reads what backward_query wrote for whole tiles of queries, so its own tiles of queries are not larger.
    "attention_backward_key": attention_kernel(
        backward_key,
        arguments=dict(query="*T", key_value="*T", grad_y="*T", row_sums="*fp32", deltas="*fp32", grad_key_value="*T", **LISTS, padded_rows="i32", **SIZES,
                       **PATTERN),
        aligned=("query", "key_value", "grad_y", "grad_key_value", "query_width", "key_width"),
        heads="key_value_heads",
        tiles_of_64=dict(QUERIES=64, KEYS=64, warps=4, stages=3, ONE_LOOP=0),
        tiles_of_128=dict(QUERIES=32, KEYS=64, warps=4, stages=3, ONE_LOOP=1),
        tiles_of_256=dict(QUERIES=32, KEYS=64, warps=8, stages=2, ONE_LOOP=0),
    ),
}
