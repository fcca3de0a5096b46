# SPDX-License-Identifier: MIT
"""What the kernels of attention share: which tile a program computes, loads of a tile, which pairs of a partial tile are
visible, and the terms of scores. docs/attention.md has the lists of tiles and the programs."""
import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
INFINITY = tl.constexpr(float("inf"))

# MASK, the words that a partial tile evaluates: BAND & DOCUMENTS & (NEAR | STRIDE | PREFIX | GLOBAL | BLOCKS), each
# where its bit is set. PROGRAM evaluates any expression instead. pattern/tile_words.h has the same bits.
BAND = tl.constexpr(1)
DOCUMENTS = tl.constexpr(2)
NEAR = tl.constexpr(4)
STRIDE = tl.constexpr(8)
PREFIX = tl.constexpr(16)
GLOBAL = tl.constexpr(32)
BLOCKS = tl.constexpr(64)
PROGRAM = tl.constexpr(128)
ANY_OF = tl.constexpr(4 + 8 + 16 + 32 + 64)
BLOCK_POSITIONS = tl.constexpr(64)

# TERMS, what changes scores: softcap first, then alibi. MAYBE: each of both may also be absent, which is softcap 0 and
# slopes 0. Sinks are part of every kernel, and -infinity if there are none.
ALIBI = tl.constexpr(1)
SOFTCAP = tl.constexpr(2)
MAYBE = tl.constexpr(4)

# The tiles that a loop meets: the partial ones, which evaluate the pattern, the full ones, or all, in this order.
PARTIAL_TILES = tl.constexpr(0)
FULL_TILES = tl.constexpr(1)
ALL_TILES = tl.constexpr(2)


@triton.jit
def mixed(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def sees_block(query, key, hash_key, threshold):
    query_block, key_block = query // BLOCK_POSITIONS, key // BLOCK_POSITIONS
    first = hash_key.to(tl.uint32)
    row = mixed(first + 2 * query_block.to(tl.uint32))
    column = mixed(first + 2 * key_block.to(tl.uint32) + 1)
    return (query_block == key_block) | ((mixed(row ^ column) >> 8).to(tl.int32) < threshold)


@triton.jit
def in_band(query, key, lowest, highest):
    """lowest <= query - key <= highest by one comparison."""
    return (query - lowest - key).to(tl.uint32) <= (highest - lowest).to(tl.uint32)


@triton.jit
def run_program(query, key, query_end, key_end, documents, program, instructions):
    """Evaluates a program for each pair, see pattern/program.h. The values on the stack are the bits of an integer."""
    stack = (query - key) * 0
    for i in range(instructions):
        operation, first, second = tl.load(program + 3 * i), tl.load(program + 3 * i + 1), tl.load(program + 3 * i + 2)
        if operation <= 1:
            if operation == 0:
                stack = (stack >> 1) & (stack | -2)
            else:
                stack = (stack >> 1) | (stack & 1)
        else:
            distance = tl.abs(query - key)
            if operation == 2:
                value = (query - key >= first) & (query - key <= second)
            elif operation == 3:
                value = (distance % first == 0) & (distance < second)
            elif operation == 4:
                value = (key < first) & (distance >= 0)
            elif operation == 5:
                value = tl.minimum(query, key) < first
            elif operation == 6:
                value = sees_block(query, key, first, second)
            else:
                value = same_document(query, key, query_end, key_end, documents)
            stack = (stack << 1) | value.to(tl.int32)
    return (stack & 1) != 0


@triton.jit
def same_document(query, key, query_end, key_end, documents):
    return (tl.load(documents + query, mask=query < query_end, other=-1) ==
            tl.load(documents + key, mask=key < key_end, other=-1))


@triton.jit
def visible(query, key, pattern, MASK: tl.constexpr):
    """Which pairs are visible, for positions of queries and keys that broadcast to the shape of a tile. `pattern` has the
    ends of both and the numbers of the words."""
    (query_end, key_end, documents, program, instructions, lowest, highest, near_lowest, near_highest, stride, span, prefix, border, hash_key,
     threshold) = pattern
    seen = (key < key_end) & (query < query_end)
    if PROGRAM & MASK:
        seen = seen & run_program(query, key, query_end, key_end, documents, program, instructions)
    if BAND & MASK:
        seen = seen & in_band(query, key, lowest, highest)
    if DOCUMENTS & MASK:
        seen = seen & same_document(query, key, query_end, key_end, documents)
    if ANY_OF & MASK:
        any_of = (key < 0) & (query < 0)
        if NEAR & MASK:
            any_of = any_of | in_band(query, key, near_lowest, near_highest)
        if STRIDE & MASK:
            distance = tl.abs(query - key)
            any_of = any_of | ((distance < span) & (distance % stride == 0))
        if PREFIX & MASK:
            any_of = any_of | ((key < prefix) & (query >= 0))
        if GLOBAL & MASK:
            any_of = any_of | (tl.minimum(query, key) < border)
        if BLOCKS & MASK:
            any_of = any_of | sees_block(query, key, hash_key, threshold)
        seen = seen & any_of
    return seen


@triton.jit
def place_of_program(rows, tiles, own_lists, heads, step, together):
    """Returns the sequence and the head of this program, its tile, and where the list of this tile starts, changes from
    partial to full tiles, and ends. These four numbers are a row of `rows`. `together` sequences and heads run next to
    each other, so that their keys and values stay in the L2 cache; the tiles with the most work are started first."""
    program, group = tl.program_id(0), together * tiles
    place = program // group * together + program % together
    rank = program % group // together
    sequence, head = place // heads, place % heads
    row = rows + 4 * (sequence // step * own_lists * tiles + rank)
    return sequence, head, tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)


@triton.jit
def rows_of_sequence(sequence, step, positions):
    """A sequence has the positions of one residue in a row of the batch. Returns that row, the residue, how many positions
    there are, and the first of them in the whole batch."""
    batch, residue = (sequence // step).to(tl.int64), sequence % step
    return batch, residue, tl.cdiv(positions - residue, step), batch * positions + residue


@triton.jit
def load_tile(start, row, place_of_row, rows, head_width, HEAD: tl.constexpr, WIDTH: tl.constexpr, INSIDE: tl.constexpr):
    """Loads rows of heads, which begin place_of_row behind `start`. INSIDE: all rows exist. WIDTH is the width of a head,
    or 0 if only head_width has it. Columns behind it are 0, up to HEAD."""
    column = tl.arange(0, HEAD)
    place = start + (place_of_row[:, None] + column[None, :])
    if INSIDE:
        if WIDTH == HEAD:
            return tl.load(place)
        else:
            return tl.load(place, mask=(column < (WIDTH if WIDTH else head_width))[None, :], other=0.0)
    elif WIDTH == HEAD:
        return tl.load(place, mask=(row < rows)[:, None], other=0.0)
    else:
        return tl.load(place, mask=(row < rows)[:, None] & (column < (WIDTH if WIDTH else head_width))[None, :], other=0.0)


@triton.jit
def store_tile(start, row, place_of_row, rows, head_width, values, HEAD: tl.constexpr, WIDTH: tl.constexpr):
    column = tl.arange(0, HEAD)
    inside = (row < rows)[:, None] if WIDTH == HEAD else (row < rows)[:, None] & (column < (WIDTH if WIDTH else head_width))[None, :]
    tl.store(start + (place_of_row[:, None] + column[None, :]), values.to(start.dtype.element_ty), mask=inside)


@triton.jit
def scales_of(scale, softcap, TERMS: tl.constexpr):
    """What products are multiplied by inside of the softcap, 0 without one, and what gives scores as powers of two."""
    inner_scale = scale * 0
    if SOFTCAP & TERMS:
        if softcap > 0:
            inner_scale = scale / softcap
            scale = softcap
    return inner_scale, scale * LOG2_E


@triton.jit
def capped(products, inner_scale, factors, TERMS: tl.constexpr):
    """`factors` is one factor of the products."""
    result = tanh(products * inner_scale, factors.dtype == tl.float32)
    if MAYBE & TERMS:
        result = tl.where(inner_scale > 0, result, products)
    return result


@triton.jit
def tanh(x, WIDE: tl.constexpr):
    """Next to 0 the difference from 1 has an error of 2^-23, which is less than the error of a product of 16-bit numbers. WIDE:
    results next to 0 are as exact as others."""
    result = 1 - 2 / (1 + tl.exp2(x * (2 * LOG2_E)))
    if WIDE:
        square = x * x
        near_zero = x * (1 + square * (-1 / 3 + square * (2 / 15 + square * (-17 / 315 + square * (62 / 2835)))))
        result = tl.where(tl.abs(x) < 0.25, near_zero, result)
    return result
