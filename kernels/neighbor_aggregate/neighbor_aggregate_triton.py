# SPDX-License-Identifier: MIT
"""Level triton of neighbor_aggregate and neighbor_attention: one program per row and block of features. Long rows are
cut into pieces. Programs of pieces are started first and store partial results in fp32, which are joined in their
order. A task is a piece or, after all pieces, a row. The task of a long row does nothing."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def edges_of(task, offsets, piece_rows, piece_begins, pieces, piece_length):
    """Returns (row, first edge, end, degree) of a task."""
    is_piece = task < pieces
    row = tl.where(is_piece, tl.load(piece_rows + task, mask=is_piece, other=0).to(tl.int64), (task - pieces).to(tl.int64))
    begin, end = tl.load(offsets + row), tl.load(offsets + row + 1)
    degree = end - begin
    piece_begin = tl.load(piece_begins + task, mask=is_piece, other=0)
    begin = tl.where(is_piece, piece_begin, begin)
    end = tl.where(is_piece, tl.minimum(piece_begin + piece_length, end), end)
    return row, begin, end, degree


@triton.jit
def neighbor_sum(x, y, partials, offsets, neighbors, piece_rows, piece_begins, factor, pieces, piece_length, tasks, width, mean, has_factor, EDGES: tl.constexpr, SIZE: tl.constexpr):
    """y[row] = the sum of factor[place] * x[neighbors[place]]. Programs are ordered by blocks of features, then by
    tasks."""
    program = tl.program_id(0)
    task = program % tasks
    column = program // tasks * SIZE + tl.arange(0, SIZE)
    inside = column < width
    row, begin, end, degree = edges_of(task, offsets, piece_rows, piece_begins, pieces, piece_length)
    if (task >= pieces) & (degree > piece_length):
        return
    total = tl.zeros([SIZE], tl.float32)
    for first in range(begin, end, EDGES):
        place = first + tl.arange(0, EDGES)
        there = place < end
        neighbor = tl.load(neighbors + place, mask=there, other=0).to(tl.int64)
        message = tl.load(x + neighbor[:, None] * width + column[None, :], mask=there[:, None] & inside[None, :], other=0.0).to(tl.float32)
        if has_factor != 0:
            message *= tl.load(factor + place, mask=there, other=0.0)[:, None]
        total += tl.sum(message, 0)
    if task < pieces:
        tl.store(partials + task.to(tl.int64) * width + column, total, mask=inside)
    else:
        if mean != 0:
            total /= tl.maximum(degree, 1).to(tl.float32)
        tl.store(y + row * width + column, total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def attention_sum(x, y, partials, offsets, neighbors, piece_rows, piece_begins, row_scores, neighbor_scores, logsumexp, pieces, piece_length, tasks, heads, width, negative_slope, rows_are_targets, EDGES: tl.constexpr, SIZE: tl.constexpr):
    """Computes neighbor_sum for heads of `width`. The factors are exp(leaky_relu(score) - logsumexp of the target)."""
    program = tl.program_id(0)
    task = program % tasks
    blocks = tl.cdiv(width, SIZE)
    head = program // tasks // blocks
    column = program // tasks % blocks * SIZE + tl.arange(0, SIZE)
    inside = column < width
    row, begin, end, degree = edges_of(task, offsets, piece_rows, piece_begins, pieces, piece_length)
    if (task >= pieces) & (degree > piece_length):
        return
    row_score = tl.load(row_scores + row * heads + head)
    total = tl.zeros([SIZE], tl.float32)
    for first in range(begin, end, EDGES):
        place = first + tl.arange(0, EDGES)
        there = place < end
        neighbor = tl.load(neighbors + place, mask=there, other=0).to(tl.int64) * heads + head
        score = row_score + tl.load(neighbor_scores + neighbor, mask=there, other=0.0)
        score = tl.where(score > 0, score, score * negative_slope)
        target = tl.where(rows_are_targets != 0, row * heads + head + neighbor * 0, neighbor)
        share = tl.where(there, tl.exp(score - tl.load(logsumexp + target, mask=there, other=0.0)), 0.0)
        message = tl.load(x + neighbor[:, None] * width + column[None, :], mask=there[:, None] & inside[None, :], other=0.0).to(tl.float32)
        total += tl.sum(message * share[:, None], 0)
    if task < pieces:
        tl.store(partials + (task.to(tl.int64) * heads + head) * width + column, total, mask=inside)
    else:
        tl.store(y + (row * heads + head) * width + column, total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def join_sums(partials, y, offsets, long_rows, first_pieces, width, mean, PIECES: tl.constexpr, SIZE: tl.constexpr):
    blocks = tl.cdiv(width, SIZE)
    long_row = tl.program_id(0) // blocks
    column = tl.program_id(0) % blocks * SIZE + tl.arange(0, SIZE)
    inside = column < width
    row = tl.load(long_rows + long_row).to(tl.int64)
    end = tl.load(first_pieces + long_row + 1)
    total = tl.zeros([SIZE], tl.float32)
    for first in range(tl.load(first_pieces + long_row), end, PIECES):
        piece = first + tl.arange(0, PIECES)
        total += tl.sum(tl.load(partials + piece.to(tl.int64)[:, None] * width + column[None, :], mask=(piece < end)[:, None] & inside[None, :], other=0.0), 0)
    if mean != 0:
        total /= (tl.load(offsets + row + 1) - tl.load(offsets + row)).to(tl.float32)
    tl.store(y + row * width + column, total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def larger(a, b):
    """Returns a NaN if one of the two is a NaN, as in PyTorch. tl.maximum alone and tl.max return the other one."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def merge_maxima(best, edge, values, edges, there):
    """Joins (best, edge) with later `values` along the first dimension: the maximum and the first edge that has it.
    Where a value is a NaN, that is the maximum."""
    most = tl.reduce(values, 0, larger)
    taken = tl.min(tl.where(((values == most[None, :]) | (values != values)) & there, edges, 2147483647), 0)
    is_larger = (most > best) | ((most != most) & (best == best))
    edge = tl.where(is_larger, taken, tl.where(most == best, tl.minimum(edge, taken), edge))
    return larger(best, most), edge


@triton.jit
def neighbor_max(x, y, largest, partials, partial_largest, offsets, neighbors, piece_rows, piece_begins, factor, pieces, piece_length, tasks, width, has_factor, EDGES: tl.constexpr, SIZE: tl.constexpr):
    """y[row] = the maximum message, `largest` = the first edge that has it, -1 if there is none."""
    program = tl.program_id(0)
    task = program % tasks
    column = program // tasks * SIZE + tl.arange(0, SIZE)
    inside = column < width
    row, begin, end, degree = edges_of(task, offsets, piece_rows, piece_begins, pieces, piece_length)
    if (task >= pieces) & (degree > piece_length):
        return
    best = tl.full([SIZE], float("-inf"), tl.float32)
    edge = tl.full([SIZE], 2147483647, tl.int32)
    for first in range(begin, end, EDGES):
        place = first + tl.arange(0, EDGES)
        there = place < end
        neighbor = tl.load(neighbors + place, mask=there, other=0).to(tl.int64)
        message = tl.load(x + neighbor[:, None] * width + column[None, :], mask=there[:, None] & inside[None, :], other=0.0).to(tl.float32)
        if has_factor != 0:
            message *= tl.load(factor + place, mask=there, other=0.0)[:, None]
        message = tl.where(there[:, None], message, float("-inf"))
        best, edge = merge_maxima(best, edge, message, place.to(tl.int32)[:, None], there[:, None])
    if task < pieces:
        tl.store(partials + task.to(tl.int64) * width + column, best, mask=inside)
        tl.store(partial_largest + task.to(tl.int64) * width + column, edge, mask=inside)
    else:
        tl.store(y + row * width + column, tl.where(degree > 0, best, 0.0).to(y.dtype.element_ty), mask=inside)
        tl.store(largest + row * width + column, tl.where(degree > 0, edge, -1), mask=inside)


@triton.jit
def join_largest(partials, partial_largest, y, largest, long_rows, first_pieces, width, PIECES: tl.constexpr, SIZE: tl.constexpr):
    blocks = tl.cdiv(width, SIZE)
    long_row = tl.program_id(0) // blocks
    column = tl.program_id(0) % blocks * SIZE + tl.arange(0, SIZE)
    inside = column < width
    row = tl.load(long_rows + long_row).to(tl.int64)
    end = tl.load(first_pieces + long_row + 1)
    best = tl.full([SIZE], float("-inf"), tl.float32)
    edge = tl.full([SIZE], 2147483647, tl.int32)
    for first in range(tl.load(first_pieces + long_row), end, PIECES):
        piece = first + tl.arange(0, PIECES)
        there = (piece < end)[:, None] & inside[None, :]
        at = piece.to(tl.int64)[:, None] * width + column[None, :]
        value = tl.load(partials + at, mask=there, other=float("-inf"))
        best, edge = merge_maxima(best, edge, value, tl.load(partial_largest + at, mask=there, other=2147483647), there)
    tl.store(y + row * width + column, best.to(y.dtype.element_ty), mask=inside)
    tl.store(largest + row * width + column, edge, mask=inside)


@triton.jit
def neighbor_max_backward(x, y, partials, offsets, neighbors, piece_rows, piece_begins, factor, edge_of, largest, pieces, piece_length, tasks, width, has_factor, EDGES: tl.constexpr, SIZE: tl.constexpr):
    """Computes neighbor_sum over edges that were the maximum: largest[neighbor] is the edge at the place."""
    program = tl.program_id(0)
    task = program % tasks
    column = program // tasks * SIZE + tl.arange(0, SIZE)
    inside = column < width
    row, begin, end, degree = edges_of(task, offsets, piece_rows, piece_begins, pieces, piece_length)
    if (task >= pieces) & (degree > piece_length):
        return
    total = tl.zeros([SIZE], tl.float32)
    for first in range(begin, end, EDGES):
        place = first + tl.arange(0, EDGES)
        there = place < end
        at = tl.load(neighbors + place, mask=there, other=0).to(tl.int64)[:, None] * width + column[None, :]
        mask = there[:, None] & inside[None, :]
        edge = tl.load(edge_of + place, mask=there, other=-2)
        message = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        if has_factor != 0:
            message *= tl.load(factor + place, mask=there, other=0.0)[:, None]
        total += tl.sum(tl.where(tl.load(largest + at, mask=mask, other=-1) == edge[:, None], message, 0.0), 0)
    if task < pieces:
        tl.store(partials + task.to(tl.int64) * width + column, total, mask=inside)
    else:
        tl.store(y + row * width + column, total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def edge_products(target_rows, source_rows, products, offsets, neighbors, piece_rows, piece_begins, largest, pieces, piece_length, tasks, width, mean, is_max, EDGES: tl.constexpr, SIZE: tl.constexpr):
    """products[edge] = target row . source row of its ends. For max only features whose maximum is this edge count."""
    task = tl.program_id(0)
    row, begin, end, degree = edges_of(task, offsets, piece_rows, piece_begins, pieces, piece_length)
    if (task >= pieces) & (degree > piece_length):
        return
    for first in range(begin, end, EDGES):
        place = first + tl.arange(0, EDGES)
        there = place < end
        neighbor = tl.load(neighbors + place, mask=there, other=0).to(tl.int64)
        dot = tl.zeros([EDGES], tl.float32)
        for start in range(0, width, SIZE):
            column = start + tl.arange(0, SIZE)
            inside = column < width
            ours = tl.load(target_rows + row * width + column, mask=inside, other=0.0).to(tl.float32)
            theirs = tl.load(source_rows + neighbor[:, None] * width + column[None, :], mask=there[:, None] & inside[None, :], other=0.0).to(tl.float32)
            product = theirs * ours[None, :]
            if is_max != 0:
                taken = tl.load(largest + row * width + column, mask=inside, other=-1)
                product = tl.where(taken[None, :] == place.to(tl.int32)[:, None], product, 0.0)
            dot += tl.sum(product, 1)
        if mean != 0:
            dot /= tl.maximum(degree, 1).to(tl.float32)
        tl.store(products + place, dot, mask=there)


@triton.jit
def score_gradient(grad_y, x, gradient, offsets, neighbors, piece_rows, piece_begins, target_scores, source_scores, logsumexp, along_y, pieces, piece_length, tasks, heads, width, negative_slope, EDGES: tl.constexpr, SIZE: tl.constexpr):
    """gradient[edge, head] of the scores before leaky_relu, with along_y = grad_y . y."""
    task, head = tl.program_id(0) % tasks, tl.program_id(0) // tasks
    row, begin, end, degree = edges_of(task, offsets, piece_rows, piece_begins, pieces, piece_length)
    if (task >= pieces) & (degree > piece_length):
        return
    target = row * heads + head
    for first in range(begin, end, EDGES):
        place = first + tl.arange(0, EDGES)
        there = place < end
        source = tl.load(neighbors + place, mask=there, other=0).to(tl.int64) * heads + head
        dot = tl.zeros([EDGES], tl.float32)
        for start in range(0, width, SIZE):
            column = start + tl.arange(0, SIZE)
            inside = column < width
            ours = tl.load(grad_y + target * width + column, mask=inside, other=0.0).to(tl.float32)
            theirs = tl.load(x + source[:, None] * width + column[None, :], mask=there[:, None] & inside[None, :], other=0.0).to(tl.float32)
            dot += tl.sum(theirs * ours[None, :], 1)
        score = tl.load(target_scores + target) + tl.load(source_scores + source, mask=there, other=0.0)
        slope = tl.where(score > 0, 1.0, negative_slope)
        share = tl.exp(score * slope - tl.load(logsumexp + target))
        tl.store(gradient + place * heads + head, share * (dot - tl.load(along_y + target)) * slope, mask=there)


@triton.jit
def score_logsumexp(result, partials, offsets, neighbors, piece_rows, piece_begins, target_scores, source_scores, pieces, piece_length, tasks, heads, negative_slope, EDGES: tl.constexpr):
    """result[row, head] = logsumexp over the scores of the row's edges."""
    task, head = tl.program_id(0) % tasks, tl.program_id(0) // tasks
    row, begin, end, degree = edges_of(task, offsets, piece_rows, piece_begins, pieces, piece_length)
    if (task >= pieces) & (degree > piece_length):
        return
    row_score = tl.load(target_scores + row * heads + head)
    most = tl.full([EDGES], float("-inf"), tl.float32)
    total = tl.zeros([EDGES], tl.float32)
    for first in range(begin, end, EDGES):
        place = first + tl.arange(0, EDGES)
        there = place < end
        source = tl.load(neighbors + place, mask=there, other=0).to(tl.int64) * heads + head
        score = row_score + tl.load(source_scores + source, mask=there, other=0.0)
        score = tl.where(there, tl.where(score > 0, score, score * negative_slope), float("-inf"))
        larger = tl.maximum(most, score)
        # `larger` is -inf as long as no edge was seen.
        base = tl.where(larger == float("-inf"), 0.0, larger)
        total = total * tl.exp(most - base) + tl.exp(score - base)
        most = larger
    largest = tl.max(most, 0)
    base = tl.where(largest == float("-inf"), 0.0, largest)
    value = base + tl.log(tl.sum(total * tl.exp(most - base), 0))
    if task < pieces:
        tl.store(partials + task.to(tl.int64) * heads + head, value)
    else:
        tl.store(result + row * heads + head, value)


@triton.jit
def join_logsumexp(partials, result, long_rows, first_pieces, heads, PIECES: tl.constexpr):
    long_row, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    begin, end = tl.load(first_pieces + long_row), tl.load(first_pieces + long_row + 1)
    most = tl.full([PIECES], float("-inf"), tl.float32)
    for first in range(begin, end, PIECES):
        piece = first + tl.arange(0, PIECES)
        most = tl.maximum(most, tl.load(partials + piece.to(tl.int64) * heads + head, mask=piece < end, other=float("-inf")))
    largest = tl.max(most, 0)
    total = tl.zeros([PIECES], tl.float32)
    for first in range(begin, end, PIECES):
        piece = first + tl.arange(0, PIECES)
        total += tl.exp(tl.load(partials + piece.to(tl.int64) * heads + head, mask=piece < end, other=float("-inf")) - largest)
    tl.store(result + tl.load(long_rows + long_row).to(tl.int64) * heads + head, largest + tl.log(tl.sum(total, 0)))


@triton.jit
def row_dots(a, b, dots, rows, width, ROWS: tl.constexpr, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros([ROWS], tl.float32)
    for start in range(0, width, SIZE):
        column = start + tl.arange(0, SIZE)
        mask = (row < rows)[:, None] & (column < width)[None, :]
        at = row[:, None] * width + column[None, :]
        total += tl.sum(tl.load(a + at, mask=mask, other=0.0).to(tl.float32) * tl.load(b + at, mask=mask, other=0.0).to(tl.float32), 1)
    tl.store(dots + row, total, mask=row < rows)


ROWS_OF_GRAPH = dict(offsets="*i64", neighbors="*i32", piece_rows="*i32", piece_begins="*i64")
TASKS = dict(pieces="i32", piece_length="i32", tasks="i32")


def choices(edges, size, warps=4):
    """One choice for rows that are whole aligned vectors, and one for any rows."""
    return [dict(EDGES=edges, SIZE=size, warps=warps), dict(EDGES=edges, SIZE=size, warps=warps, aligned=False)]


KERNELS = {
    "neighbor_sum": TritonKernel(
        neighbor_sum,
        arguments=dict(x="*T", y="*T", partials="*fp32", **ROWS_OF_GRAPH, factor="*fp32", **TASKS, width="i32", mean="i32", has_factor="i32"),
        choices=choices(16, 128),
        aligned=("x", "y", "width"),
        grid=("tasks * ceil_div(width, SIZE)",),
    ),
    "neighbor_attention_sum": TritonKernel(
        attention_sum,
        arguments=dict(x="*T", y="*T", partials="*fp32", **ROWS_OF_GRAPH, row_scores="*fp32", neighbor_scores="*fp32", logsumexp="*fp32", **TASKS, heads="i32", width="i32", negative_slope="fp32", rows_are_targets="i32"),
        choices=choices(16, 64),
        aligned=("x", "y", "width"),
        grid=("tasks * heads * ceil_div(width, SIZE)",),
    ),
    "neighbor_join_sums": TritonKernel(
        join_sums,
        arguments=dict(partials="*fp32", y="*T", offsets="*i64", long_rows="*i32", first_pieces="*i32", width="i32", mean="i32"),
        sizes=("rows",),
        choices=[dict(PIECES=16, SIZE=128, warps=4, aligned=False)],
        grid=("rows * ceil_div(width, SIZE)",),
    ),
    "neighbor_max": TritonKernel(
        neighbor_max,
        arguments=dict(x="*T", y="*T", largest="*i32", partials="*fp32", partial_largest="*i32", **ROWS_OF_GRAPH, factor="*fp32", **TASKS, width="i32", has_factor="i32"),
        choices=choices(16, 128),
        aligned=("x", "y", "width"),
        grid=("tasks * ceil_div(width, SIZE)",),
    ),
    "neighbor_join_largest": TritonKernel(
        join_largest,
        arguments=dict(partials="*fp32", partial_largest="*i32", y="*T", largest="*i32", long_rows="*i32", first_pieces="*i32", width="i32"),
        sizes=("rows",),
        choices=[dict(PIECES=16, SIZE=128, warps=4, aligned=False)],
        grid=("rows * ceil_div(width, SIZE)",),
    ),
    "neighbor_max_backward": TritonKernel(
        neighbor_max_backward,
        arguments=dict(x="*T", y="*T", partials="*fp32", **ROWS_OF_GRAPH, factor="*fp32", edge_of="*i32", largest="*i32", **TASKS, width="i32", has_factor="i32"),
        choices=choices(16, 128),
        aligned=("x", "y", "width"),
        grid=("tasks * ceil_div(width, SIZE)",),
    ),
    "neighbor_edge_products": TritonKernel(
        edge_products,
        arguments=dict(target_rows="*T", source_rows="*T", products="*fp32", **ROWS_OF_GRAPH, largest="*i32", **TASKS, width="i32", mean="i32", is_max="i32"),
        choices=choices(16, 128),
        aligned=("target_rows", "source_rows", "width"),
        grid=("tasks",),
    ),
    "neighbor_score_gradient": TritonKernel(
        score_gradient,
        arguments=dict(grad_y="*T", x="*T", gradient="*fp32", **ROWS_OF_GRAPH, target_scores="*fp32", source_scores="*fp32", logsumexp="*fp32", along_y="*fp32", **TASKS, heads="i32", width="i32", negative_slope="fp32"),
        choices=choices(16, 64),
        aligned=("grad_y", "x", "width"),
        grid=("tasks * heads",),
    ),
    "neighbor_score_logsumexp": TritonKernel(
        score_logsumexp,
        arguments=dict(result="*T", partials="*fp32", **ROWS_OF_GRAPH, target_scores="*fp32", source_scores="*fp32", **TASKS, heads="i32", negative_slope="fp32"),
        types=[{"T": "fp32"}],
        choices=[dict(EDGES=32, warps=1, aligned=False)],
        grid=("tasks * heads",),
    ),
    "neighbor_join_logsumexp": TritonKernel(
        join_logsumexp,
        arguments=dict(partials="*fp32", result="*T", long_rows="*i32", first_pieces="*i32", heads="i32"),
        types=[{"T": "fp32"}],
        sizes=("rows",),
        choices=[dict(PIECES=128, warps=4, aligned=False)],
        grid=("rows * heads",),
    ),
    "neighbor_row_dots": TritonKernel(
        row_dots,
        arguments=dict(a="*T", b="*T", dots="*fp32", rows="i64", width="i32"),
        choices=[dict(ROWS=16, SIZE=64, warps=4), dict(ROWS=16, SIZE=64, warps=4, aligned=False)],
        aligned=("a", "b", "width"),
        grid=("ceil_div(rows, ROWS)",),
    ),
}
