# SPDX-License-Identifier: MIT
"""The lists of tiles of packed documents, made on the GPU from the lists of the pattern in which all positions are one
document."""
import triton
import triton.language as tl

from kernels.runtime.triton_kernel import TritonKernel


@triton.jit
def copy_tiles(own_indices, place, document, indices, first, middle, last, lowest, highest, other_begin, other_end, other_size, must_share,
               FULL: tl.constexpr, CHUNK: tl.constexpr):
    """Writes the full or the partial tiles among first <= i < last from `place` on, in order. Returns their end. A tile
    is full if it was full for one document and has only one. `lowest` and `highest` are the documents of the row."""
    for start in range(first, last, CHUNK):
        i = start + tl.arange(0, CHUNK)
        inside = i < last
        tile = tl.load(indices + i, mask=inside, other=0)
        other_lowest = tl.load(document + other_begin + tile * other_size, mask=inside, other=0)
        other_highest = tl.load(document + tl.minimum(other_begin + (tile + 1) * other_size, other_end) - 1, mask=inside, other=0)
        chosen = inside & (i >= middle) & (lowest == highest) & (other_lowest == lowest) & (other_highest == lowest)
        if not FULL:
            meets = (must_share == 0) | ((other_lowest <= highest) & (lowest <= other_highest))
            chosen = inside & meets & (chosen == 0)
        count = chosen.to(tl.int32)
        tl.store(own_indices + place + tl.cumsum(count, 0) - count, tile, mask=chosen)
        place += tl.sum(count, 0)
    return place


@triton.jit
def document_tiles(documents, rows, indices, own_rows, own_indices, positions, begin, end, other_begin, other_end, tiles, capacity, size, other_size,
                   must_share, CHUNK: tl.constexpr):
    """A program has one tile of a row of the batch. documents [B, T] ascend in each row. rows [tiles, 4] and indices
    [capacity] are the lists for one document; own_rows [B, tiles, 4] and own_indices [B, capacity] are the lists for each row.
    Tiles of `size` of the positions from `begin` to `end` meet tiles of `other_size` of those from `other_begin` on.
    must_share: pairs of two documents are never visible."""
    batch, rank = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    row = rows + 4 * rank
    tile, first, middle, last = tl.load(row), tl.load(row + 1), tl.load(row + 2), tl.load(row + 3)
    document = documents + batch.to(tl.int64) * positions
    lowest = tl.load(document + begin + tile * size)
    highest = tl.load(document + tl.minimum(begin + (tile + 1) * size, end) - 1)
    place = batch * capacity + first
    own_middle = copy_tiles(own_indices, place, document, indices, first, middle, last, lowest, highest, other_begin, other_end, other_size, must_share,
                            False, CHUNK)
    own_last = copy_tiles(own_indices, own_middle, document, indices, first, middle, last, lowest, highest, other_begin, other_end, other_size, must_share,
                          True, CHUNK)
    own_row = own_rows + 4 * tl.program_id(0)
    tl.store(own_row, tile)
    tl.store(own_row + 1, place)
    tl.store(own_row + 2, own_middle)
    tl.store(own_row + 3, own_last)


DOCUMENT_TILES = TritonKernel(
    document_tiles,
    arguments=dict(documents="*i32", rows="*i32", indices="*i32", own_rows="*i32", own_indices="*i32", positions="i32", begin="i32", end="i32",
                   other_begin="i32", other_end="i32", tiles="i32", capacity="i32", size="i32", other_size="i32", must_share="i32"),
    sizes=("batch",),
    choices=[dict(CHUNK=128, warps=4)],
    types=({"T": "i32"},),
    grid=("tiles * batch",),
    portable=False,
)
