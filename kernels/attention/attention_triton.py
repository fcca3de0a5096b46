# SPDX-License-Identifier: MIT
"""Level triton of attention. Scores never reach memory: blocks of queries are multiplied by blocks of keys in
registers, with the online softmax of FlashAttention. Heads are padded in registers to a width of 16, 64 or 128. In the
backward one kernel writes the gradients of keys and values and another those of queries, so there are no atomics."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def rows_of(start, row_width, head_width, row, rows, HEAD: tl.constexpr, EXACT: tl.constexpr):
    """Loads the block [row, column] of a head that begins at `start`; zeros after the last row and outside the head's
    width."""
    column = tl.arange(0, HEAD)
    inside = (row < rows)[:, None] & (column < HEAD)[None, :] if EXACT else (row < rows)[:, None] & (column < head_width)[None, :]
    return tl.load(start + row.to(tl.int64)[:, None] * row_width + column[None, :], mask=inside, other=0.0)


@triton.jit
def store_rows(start, row_width, head_width, row, rows, values, HEAD: tl.constexpr, EXACT: tl.constexpr):
    column = tl.arange(0, HEAD)
    inside = (row < rows)[:, None] & (column < HEAD)[None, :] if EXACT else (row < rows)[:, None] & (column < head_width)[None, :]
    tl.store(start + row.to(tl.int64)[:, None] * row_width + column[None, :], values.to(start.dtype.element_ty), mask=inside)


@triton.jit
def meet_keys(total, largest, weights, query, key_start, value_start, row_width, head_width, query_row, positions, first_key, last_key, scale,
              causal, MASKED: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr, EXACT: tl.constexpr):
    """The online softmax over keys first_key <= i < last_key. `scale` includes log2(e), because exponentials are powers
    of two."""
    for first in range(first_key, last_key, KEYS):
        key_row = first + tl.arange(0, KEYS)
        key = rows_of(key_start, row_width, head_width, key_row, positions, HEAD, EXACT)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        if MASKED:
            seen = (key_row < positions)[None, :] & ((causal == 0) | (key_row[None, :] <= query_row[:, None]))
            scores = tl.where(seen, scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, 1))
        decay = tl.exp2(largest - new_largest)
        share = tl.exp2(scores - new_largest[:, None])
        weights = weights * decay + tl.sum(share, 1)
        value = rows_of(value_start, row_width, head_width, key_row, positions, HEAD, EXACT)
        total = tl.dot(share.to(value.dtype), value, total * decay[:, None], input_precision="ieee")
        largest = new_largest
    return total, largest, weights


@triton.jit
def block_of_queries(positions, heads, key_value_heads, row_width, width, causal, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    """The block of queries of one head that this program computes. Returns the offsets of its queries, keys and values
    in qkv, and the range of keys that it attends to. The last blocks attend to most keys (if causal), so they are
    started first."""
    blocks = tl.cdiv(positions, QUERIES)
    block = blocks - 1 - tl.program_id(0) % blocks
    head = tl.program_id(0) // blocks % heads
    batch = (tl.program_id(0) // blocks // heads).to(tl.int64)
    start = batch * positions * row_width
    key_head = heads + head // (heads // key_value_heads)
    query_row = block * QUERIES + tl.arange(0, QUERIES)
    last_key = tl.where(causal != 0, tl.minimum((block + 1) * QUERIES, positions), positions)
    # Every query attends to the keys before `whole`.
    whole = tl.where(causal != 0, block * QUERIES, positions) // KEYS * KEYS
    return batch, head, query_row, start + head * width, start + key_head * width, start + (key_head + key_value_heads) * width, whole, last_key


@triton.jit
def forward(qkv, y, logsumexp, positions, heads, key_value_heads, head_width, row_width, scale, causal,
            HEAD: tl.constexpr, EXACT: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    width = HEAD if EXACT else head_width
    batch, head, query_row, query_place, key_place, value_place, whole, last_key = block_of_queries(
        positions, heads, key_value_heads, row_width, width, causal, QUERIES, KEYS)
    query = rows_of(qkv + query_place, row_width, head_width, query_row, positions, HEAD, EXACT)
    total = tl.zeros([QUERIES, HEAD], tl.float32)
    largest = tl.full([QUERIES], -float("inf"), tl.float32)
    weights = tl.zeros([QUERIES], tl.float32)
    total, largest, weights = meet_keys(total, largest, weights, query, qkv + key_place, qkv + value_place, row_width, head_width, query_row,
                                        positions, 0, whole, scale * LOG2_E, causal, False, KEYS, HEAD, EXACT)
    total, largest, weights = meet_keys(total, largest, weights, query, qkv + key_place, qkv + value_place, row_width, head_width, query_row,
                                        positions, whole, last_key, scale * LOG2_E, causal, True, KEYS, HEAD, EXACT)
    tl.store(logsumexp + (batch * heads + head) * positions + query_row, (largest + tl.log2(weights)) / LOG2_E, mask=query_row < positions)
    store_rows(y + batch * positions * heads * width + head * width, heads * width, head_width, query_row, positions,
               total / weights[:, None], HEAD, EXACT)


@triton.jit
def products(grad_y, y, delta, rows, positions, heads, head_width, HEAD: tl.constexpr, ROWS: tl.constexpr):
    """delta [B, H, T] = the sum over a head's width of grad_y * y. Both are rows of head_width elements in the order
    [B, T, H]."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, HEAD)
    inside = (row < rows)[:, None] & (column < head_width)[None, :]
    place = row[:, None] * head_width + column[None, :]
    product = tl.load(grad_y + place, mask=inside, other=0.0).to(tl.float32) * tl.load(y + place, mask=inside, other=0.0).to(tl.float32)
    token, head = row // heads, row % heads
    target = (token // positions * heads + head) * positions + token % positions
    tl.store(delta + target, tl.sum(product, 1), mask=row < rows)


@triton.jit
def gradient_of_query(total, query, grad, row_sum, delta, key_start, value_start, row_width, head_width, query_row, positions,
                      first_key, last_key, scale, causal, MASKED: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr, EXACT: tl.constexpr):
    for first in range(first_key, last_key, KEYS):
        key_row = first + tl.arange(0, KEYS)
        key = rows_of(key_start, row_width, head_width, key_row, positions, HEAD, EXACT)
        value = rows_of(value_start, row_width, head_width, key_row, positions, HEAD, EXACT)
        share = tl.exp2(tl.dot(query, tl.trans(key), input_precision="ieee") * scale - row_sum[:, None])
        if MASKED:
            seen = (key_row < positions)[None, :] & ((causal == 0) | (key_row[None, :] <= query_row[:, None]))
            share = tl.where(seen, share, 0.0)
        change = share * (tl.dot(grad, tl.trans(value), input_precision="ieee") - delta[:, None])
        total = tl.dot(change.to(key.dtype), key, total, input_precision="ieee")
    return total


@triton.jit
def backward_query(qkv, grad_y, logsumexp, delta, grad_qkv, positions, heads, key_value_heads, head_width, row_width, scale, causal,
                   HEAD: tl.constexpr, EXACT: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    width = HEAD if EXACT else head_width
    batch, head, query_row, query_place, key_place, value_place, whole, last_key = block_of_queries(
        positions, heads, key_value_heads, row_width, width, causal, QUERIES, KEYS)
    query = rows_of(qkv + query_place, row_width, head_width, query_row, positions, HEAD, EXACT)
    grad = rows_of(grad_y + batch * positions * heads * width + head * width, heads * width, head_width, query_row, positions, HEAD, EXACT)
    place = (batch * heads + head) * positions + query_row
    row_sum = tl.load(logsumexp + place, mask=query_row < positions, other=float("inf")) * LOG2_E
    products_of_rows = tl.load(delta + place, mask=query_row < positions, other=0.0)
    total = tl.zeros([QUERIES, HEAD], tl.float32)
    total = gradient_of_query(total, query, grad, row_sum, products_of_rows, qkv + key_place, qkv + value_place, row_width, head_width,
                              query_row, positions, 0, whole, scale * LOG2_E, causal, False, KEYS, HEAD, EXACT)
    total = gradient_of_query(total, query, grad, row_sum, products_of_rows, qkv + key_place, qkv + value_place, row_width, head_width,
                              query_row, positions, whole, last_key, scale * LOG2_E, causal, True, KEYS, HEAD, EXACT)
    store_rows(grad_qkv + query_place, row_width, head_width, query_row, positions, total * scale, HEAD, EXACT)


@triton.jit
def gradient_of_key(key_total, value_total, key, value, query_start, grad_start, row_sums, deltas, row_width, grad_width, head_width, key_row,
                    positions, first_query, last_query, scale, MASKED: tl.constexpr, QUERIES: tl.constexpr, HEAD: tl.constexpr,
                    EXACT: tl.constexpr):
    """Scores are transposed: [key, query]. Queries after the last one have an infinite logsumexp, so their probability
    is 0."""
    for first in range(first_query, last_query, QUERIES):
        query_row = first + tl.arange(0, QUERIES)
        query = rows_of(query_start, row_width, head_width, query_row, positions, HEAD, EXACT)
        grad = rows_of(grad_start, grad_width, head_width, query_row, positions, HEAD, EXACT)
        row_sum = tl.load(row_sums + query_row, mask=query_row < positions, other=float("inf")) * LOG2_E
        delta = tl.load(deltas + query_row, mask=query_row < positions, other=0.0)
        share = tl.exp2(tl.dot(key, tl.trans(query), input_precision="ieee") * scale - row_sum[None, :])
        if MASKED:
            share = tl.where(key_row[:, None] <= query_row[None, :], share, 0.0)
        value_total = tl.dot(share.to(grad.dtype), grad, value_total, input_precision="ieee")
        change = share * (tl.dot(value, tl.trans(grad), input_precision="ieee") - delta[None, :])
        key_total = tl.dot(change.to(query.dtype), query, key_total, input_precision="ieee")
    return key_total, value_total


@triton.jit
def backward_key(qkv, grad_y, logsumexp, delta, grad_qkv, positions, heads, key_value_heads, head_width, row_width, scale, causal,
                 HEAD: tl.constexpr, EXACT: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    """Each program has a block of one key and value head and iterates over the queries of all heads that share it. The
    first blocks are visible to most queries (if causal), so they are started first."""
    width = HEAD if EXACT else head_width
    blocks = tl.cdiv(positions, KEYS)
    block = tl.program_id(0) % blocks
    key_head = tl.program_id(0) // blocks % key_value_heads
    batch = (tl.program_id(0) // blocks // key_value_heads).to(tl.int64)
    shared_by = heads // key_value_heads
    start = batch * positions * row_width
    key_place = start + (heads + key_head) * width
    value_place = start + (heads + key_value_heads + key_head) * width
    key_row = block * KEYS + tl.arange(0, KEYS)
    key = rows_of(qkv + key_place, row_width, head_width, key_row, positions, HEAD, EXACT)
    value = rows_of(qkv + value_place, row_width, head_width, key_row, positions, HEAD, EXACT)
    key_total = tl.zeros([KEYS, HEAD], tl.float32)
    value_total = tl.zeros([KEYS, HEAD], tl.float32)
    first_query = tl.where(causal != 0, block * KEYS // QUERIES * QUERIES, 0)
    # Queries from `whole` on attend to every key of the block.
    whole = tl.where(causal != 0, tl.minimum(tl.cdiv((block + 1) * KEYS, QUERIES) * QUERIES, positions), 0)
    for head in range(key_head * shared_by, (key_head + 1) * shared_by):
        query_start = qkv + start + head * width
        grad_start = grad_y + batch * positions * heads * width + head * width
        rows = (batch * heads + head) * positions
        key_total, value_total = gradient_of_key(key_total, value_total, key, value, query_start, grad_start, logsumexp + rows, delta + rows,
                                                 row_width, heads * width, head_width, key_row, positions, first_query, whole,
                                                 scale * LOG2_E, True, QUERIES, HEAD, EXACT)
        key_total, value_total = gradient_of_key(key_total, value_total, key, value, query_start, grad_start, logsumexp + rows, delta + rows,
                                                 row_width, heads * width, head_width, key_row, positions, whole, positions,
                                                 scale * LOG2_E, False, QUERIES, HEAD, EXACT)
    store_rows(grad_qkv + key_place, row_width, head_width, key_row, positions, key_total * scale, HEAD, EXACT)
    store_rows(grad_qkv + value_place, row_width, head_width, key_row, positions, value_total, HEAD, EXACT)


HALF = ("bf16", "fp16")


def choices(of_64, of_128, stages):
    """Block sizes (QUERIES, KEYS) for heads 64 and 128 wide. Other widths, unaligned pointers and fp32 get small
    blocks; no tensor core multiplies fp32 without rounding it."""
    fast = [dict(HEAD=head, EXACT=1, QUERIES=queries, KEYS=keys, warps=8, stages=stages, only=HALF)
            for head, (queries, keys) in ((64, of_64), (128, of_128))]
    any_width = [dict(HEAD=head, EXACT=0, QUERIES=64, KEYS=64 if head < 128 else 32, warps=4, stages=1, only=HALF, aligned=False)
                 for head in (16, 64, 128)]
    single = [dict(HEAD=head, EXACT=0, QUERIES=block, KEYS=block, warps=4, stages=1, only=("fp32",), aligned=False)
              for head, block in ((16, 32), (64, 16), (128, 16))]
    return fast + any_width + single


FITS = "head_width <= HEAD and (EXACT == 0 or head_width == HEAD)"
SIZES = dict(positions="i32", heads="i32", key_value_heads="i32", head_width="i32", row_width="i32", scale="fp32", causal="i32")
BACKWARD = dict(qkv="*T", grad_y="*T", logsumexp="*fp32", delta="*fp32", grad_qkv="*T", **SIZES)

KERNELS = {
    "attention_forward": TritonKernel(
        forward,
        arguments=dict(qkv="*T", y="*T", logsumexp="*fp32", **SIZES),
        sizes=("batch",),
        choices=choices((128, 128), (128, 64), stages=3),
        fits=FITS,
        aligned=("qkv", "y", "row_width"),
        grid=("ceil_div(positions, QUERIES) * heads * batch",),
    ),
    "attention_products": TritonKernel(
        products,
        arguments=dict(grad_y="*T", y="*T", delta="*fp32", rows="i64", positions="i32", heads="i32", head_width="i32"),
        choices=[dict(HEAD=64, ROWS=32, warps=4), dict(HEAD=128, ROWS=16, warps=4), dict(HEAD=128, ROWS=16, warps=4, aligned=False)],
        fits="head_width <= HEAD",
        aligned=("grad_y", "y", "head_width"),
        grid=("ceil_div(rows, ROWS)",),
    ),
    "attention_backward_query": TritonKernel(
        backward_query, BACKWARD, choices((128, 64), (128, 64), stages=2), fits=FITS, sizes=("batch",),
        aligned=("qkv", "grad_y", "grad_qkv", "row_width"), grid=("ceil_div(positions, QUERIES) * heads * batch",)),
    "attention_backward_key": TritonKernel(
        backward_key, BACKWARD, choices((64, 128), (64, 64), stages=2), fits=FITS, sizes=("batch",),
        aligned=("qkv", "grad_y", "grad_qkv", "row_width"), grid=("ceil_div(positions, KEYS) * key_value_heads * batch",)),
}
