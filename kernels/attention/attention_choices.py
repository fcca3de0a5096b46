# SPDX-License-Identifier: MIT
"""For which widths, types, patterns and terms the kernels of attention are compiled."""
from kernels.attention import attention_tile_triton
from kernels.runtime.triton_kernel import TritonKernel

HALF = ("bf16", "fp16")

# The arguments that all three kernels have. PATTERN are numbers of words and may be negative.
LISTS = dict(rows="*i32", indices="*i32", documents="*i32", program="*i32", slopes="*fp32", sinks="*fp32")
# A row has `positions` keys, and query_count queries from the position first_query on. Rows of queries and of keys are
# query_width and key_width elements apart.
SIZES = dict(query_count="i32", first_query="i32", positions="i32", heads="i32", key_value_heads="i32", head_width="i32", query_width="i32",
             key_width="i32", step="i32", tiles="i32", own_lists="i32", together="i32", scale="fp32", softcap="fp32", instructions="i32")
PATTERN = dict(lowest="i32", highest="i32", near_lowest="i32", near_highest="i32", stride="i32", span="i32", prefix="i32", border="i32", hash_key="i32",
               threshold="i32")

# Values of MASK. A kernel that evaluates more words than a pattern has gets numbers for them that change nothing. Only
# documents and blocks have no such numbers.
BAND, DOCUMENTS, NEAR, PREFIX, GLOBAL, BLOCKS, PROGRAM = (
    getattr(attention_tile_triton, word).value for word in ("BAND", "DOCUMENTS", "NEAR", "PREFIX", "GLOBAL", "BLOCKS", "PROGRAM"))
EXACT = DOCUMENTS | BLOCKS
MASKS = (BAND, BAND | DOCUMENTS, BAND | NEAR | PREFIX | GLOBAL, BAND | BLOCKS, PROGRAM)
# Values of TERMS. A softcap and alibi together, or one of them with a pattern of many words, have the kernel for all.
NO_TERMS, ALIBI, SOFTCAP, MAYBE = 0, *(getattr(attention_tile_triton, word).value for word in ("ALIBI", "SOFTCAP", "MAYBE"))
ALL_TERMS = ALIBI | SOFTCAP | MAYBE
WORDS_AND_TERMS = ([(mask, NO_TERMS) for mask in MASKS] + [(mask, terms) for mask in (BAND, BAND | DOCUMENTS) for terms in (ALIBI, SOFTCAP)] +
                   [(PROGRAM, ALL_TERMS)])
FITS = (f"(terms == TERMS or (terms > 0 and TERMS == {ALL_TERMS})) and head_width <= HEAD and (WIDTH == 0 or head_width == WIDTH) and "
        f"queries == QUERIES and keys == KEYS and heads_of_tile == HEADS and "
        f"(MASK == {PROGRAM} or ((words & MASK) == words and (words & {EXACT}) == (MASK & {EXACT})))")


def choices(tiles_of_64, tiles_of_128, tiles_of_256, block_tiles=()):
    """Heads of 64, 96, 128 and 256 in 16 bits are fast. For other widths, pointers that are not aligned, and fp32, there
    is one kernel for all patterns; no tensor core multiplies fp32 without rounding it. Heads of 96 or 16 have no kernel
    of their own for terms. `block_tiles` are the tiles of heads of 65 to 128, if the pattern is of blocks and they
    differ. attention_triton.cc has the sizes of tiles too."""
    result = []

    def add(head, width, mask, terms, tile, **more):
        # A loop that may run a program is slow for full tiles too, and a softcap needs many registers.
        loops = {"ONE_LOOP": 0} if mask == PROGRAM or terms & SOFTCAP else {}
        result.append({"HEAD": head, "WIDTH": width, "MASK": mask, "TERMS": terms, "HEADS": 1, **tile, **loops, **more})

    tiles = {16: tiles_of_64, 64: tiles_of_64, 128: tiles_of_128, 256: tiles_of_256}
    for head, width in ((64, 64), (128, 96), (128, 128), (256, 256)):
        for mask, terms in WORDS_AND_TERMS:
            if block_tiles and head == 128 and mask == BAND | BLOCKS:
                for tile in block_tiles:
                    add(head, width, mask, terms, tile, only=HALF)
            elif width != 96 or terms == NO_TERMS:
                add(head, width, mask, terms, tiles[head], only=HALF)
    for head, tile in tiles.items():
        size = 32 if head <= 64 else 16
        for terms in (NO_TERMS,) if head == 16 else (NO_TERMS, ALL_TERMS):
            add(head, 0, PROGRAM, terms, tile, stages=1, only=HALF, aligned=False)
            add(head, 0, PROGRAM, terms, dict(QUERIES=size, KEYS=size, warps=4, stages=1), only=("fp32",), aligned=False)
    for tile in block_tiles:
        add(128, 0, PROGRAM, NO_TERMS, tile, stages=1, only=HALF, aligned=False)
    return result


def attention_kernel(function, arguments, aligned, heads, **tiles):
    """A program has a tile of one of `heads`, or of HEADS that share keys. `sequences` are rows of the batch, or the residues
    of their positions."""
    return TritonKernel(
        function, arguments, choices(**tiles), grid=(f"tiles * ceil_div({heads}, HEADS) * sequences",), fits=FITS,
        sizes=("sequences", "words", "queries", "keys", "heads_of_tile", "terms"), aligned=aligned, signed=tuple(PATTERN), portable=False)
