# SPDX-License-Identifier: MIT
"""patterns.py ROOT: prints docs/patterns.md, the design patterns of the kernels, from the sources below ROOT.

Where a pattern is used follows from its sign: an include, a function or a name that only this pattern has. What it gained
is a sentence with a number that stands in a source or on a page; it is read there, so that the number stands once."""
import os
import re
import sys
from dataclasses import dataclass

import op_sources
from page import filled

MAKE = "tools/strata explain --patterns > docs/patterns.md"
ROOMS = ("kernels", "trainer/step", "tools/generation")
NOT_SEARCHED = ("_test.cc", "_test.py", "_proof.cc")  # by the end of the name
PROOFS = "kernels/proof"
COMMENT = re.compile(r"^[ \t]*(?://|#)[ \t]?", re.MULTILINE)


@dataclass(frozen=True)
class Pattern:
    name: str
    idea: str
    home: str  # the file that explains it, or is the best example
    sign: str  # a regular expression that files with the pattern have
    gain: tuple = ()  # (file, the first words of the sentence with the number); none was measured for the pattern alone


PATTERNS = [
    Pattern("A team of warps for each row",
            "A row is reduced by as many warps as its width needs: a warp alone for narrow rows, a block for wide ones. A narrow row then needs no barrier, and "
            "a wide one stays in registers.",
            "kernels/cuda/row_team.cuh", r"\bRowTeam\b",
            ("kernels/norms/norm_forward.cuh", "For narrow rows: one warp per row")),
    Pattern("A ring of copies in shared memory",
            "One thread starts copies of the next rows while the warps compute this one, so the memory never waits for a reduction. On Hopper these are bulk "
            "copies of the copy engine, and on older GPUs each thread copies its own vectors.",
            "kernels/cuda/bulk_ring.cuh", r"\b(?:RowRing|CopyRing)\b|kernels/cuda/(?:bulk|row|copy)_ring\.cuh|\bRing(?:Barriers|Position)\b",
            ("kernels/cuda/row_ring.cuh", "rms_norm 16384 x 4096, backward: 3.8 TB/s")),
    Pattern("Several loads in flight for each thread",
            "A thread loads several vectors before it uses the first, because the latency of the memory is longer than the work on one vector. Too many take "
            "registers, and then a multiprocessor holds fewer threads.",
            "kernels/swiglu/swiglu.cu", r"loads at once|loads before it adds|\bkRowsAtOnce\b|\bint kAhead\b",
            ("kernels/embedding/embedding.cu", "With 8 rows a multiprocessor holds fewer threads")),
    Pattern("Launches that overlap",
            "A kernel starts while the one before it is ending, and waits only before it reads what that one wrote. Its start and its first loads of constants "
            "are then hidden.",
            "kernels/cuda/launch_overlapped.cuh", r"\b(?:launch_overlapped|let_next_kernel_start)\b",
            ("kernels/cuda/launch_overlapped.cuh", "launch_overlapped: starts a kernel while")),
    Pattern("Waves of blocks that get smaller",
            "Each wave of blocks has half the rows of the wave before it. A multiprocessor that another kernel holds for a while then delays the launch by a "
            "small block instead of a large one.",
            "kernels/cuda/waves.h", r"kernels/cuda/waves\.h|\bwaves_for\(|\bRowRange\b",
            ("kernels/cuda/waves.h", "Measured on an H100 with 1 or 8 held multiprocessors")),
    Pattern("Persistent blocks with a work counter",
            "One block for each multiprocessor stays until the work is done, and takes the number of its next tile from a counter in memory. A block that starts "
            "late does less, and nobody waits for it.",
            "kernels/cuda/work_counter.cuh", r"\bWorkCounter\b|kernels/cuda/work_counter\.cuh",
            ("kernels/cuda/work_counter.cuh", "With a fixed share of the work")),
    Pattern("Warps with different jobs",
            "Some warps only plan and copy tiles, and give their registers to those that multiply. Tensor cores and copy engine then work at the same time, "
            "joined by barriers in shared memory.",
            "kernels/attention/wgmma/forward.cuh", r"\b(?:take|give)_registers<"),
    Pattern("A cluster that shares shared memory",
            "Blocks of a cluster read and write each other's shared memory. So a row or a tile that is too large for one block is still read from memory once.",
            "kernels/cross_entropy/cross_entropy_ring.cuh", r"shared::cluster\.mbarrier|\bcluster_blocks\(|\.multicast::cluster"),
    Pattern("An epilogue before the result is stored",
            "Bias and activation are applied while a product is still in registers. The result is written once, instead of once by the product and again by a "
            "pass of its own.",
            "kernels/cuda/gelu_gemm.cu", r"kernels/cuda/gelu_gemm\.h|\bEPILOGUE\b|\bEpilogue::",
            ("kernels/cuda/gelu_gemm.cu", "In earlier runs the kernel with fixed shares")),
    Pattern("A sum that several warps share",
            "If a product has too few outputs to fill the GPU, several warps compute parts of the same sum (split-K). The parts are added in a fixed order.",
            "kernels/linear/few_rows.cuh", r"\bkSplit\b"),
    Pattern("A softmax that is streamed",
            "The largest number and the sum of exponentials so far are kept, and corrected when a larger number comes. So a row is read once, and scores are never "
            "stored.",
            "kernels/attention/wgmma/forward_softmax.cuh", r"\b(?:RowState|LogitSums)\b|\bmeet_tiles\b"),
    Pattern("Lists of tiles",
            "A pattern of attention is compiled to the tiles that it needs: tiles without a visible pair are in no list, and full tiles evaluate no mask. The cost "
            "follows the visible pairs instead of all pairs.",
            "kernels/attention/tiles/tile_lists.h", r"kernels/attention/tiles/(?:tile|step)_lists\.h|\b(?:TileLists|StepsOfTiles)\b|\b(?:ALL|FULL|PARTIAL)_TILES\b",
            ("kernels/attention/wgmma/attention_outputs.cc", "On an H200 windows of 256")),
    Pattern("Gradients in place",
            "A gradient is written over a tensor that nobody needs any more: logits, or the gradient that arrives. It saves the memory of the largest tensor of a "
            "model, and a backward may have nothing left to do.",
            "kernels/cross_entropy/cross_entropy.h", r"in_place"),
    Pattern("Partial sums in a fixed order",
            "The gradient of a weight is a sum over all rows. Each block keeps its part, and a last step adds the parts in their order: no atomics, and the same bits "
            "in each run.",
            "kernels/cuda/sum_partials.cuh", r"kernels/cuda/(?:sum_partials\.cuh|partial_sums\.h)|\bsum_partials\b"),
    Pattern("Recomputed instead of stored",
            "A mask of dropout, or a random rounding, is a hash of its place, so that the backward computes it again and no memory holds it. A thread hashes its "
            "columns once for several rows.",
            "kernels/dropout/dropout.cu", r"\bkRowsAtOnce\b|kernels/runtime/element_hash\.h|\bdef mix\(hash",
            ("kernels/dropout/dropout.cu", "65536 x 768: 3.7 TB/s, with 4 rows 3.1")),
    Pattern("Captured graphs",
            "The kernels of a whole step are captured once and replayed with one call, so that the host queues nothing. The replay has the memory, the "
            "addresses and the shapes of the capture.",
            "trainer/step/captured_step.h", r"\bCUDAGraph\b",
            ("docs/claims.md", "A step of the vision quick start")),
]  # fmt: skip


def sentence(text, beginning):
    """Returns the sentence of a comment or a page that begins with these words, or None."""
    words = " ".join(COMMENT.sub("", text).split())
    start = words.find(beginning)
    if start < 0:
        return None
    end = re.compile(r"\.\)?(?= |$)").search(words, start)
    return words[start:end.end()] if end else None


def gain(pattern, sources):
    """Returns the sentence with the measured number. Raises a ValueError if the source does not have it any more."""
    path, beginning = pattern.gain
    found = sentence(sources.read(path), beginning)
    if found is None or not re.search(r"\d", found):
        raise ValueError(f"{path} has no sentence with a number that begins with: {beginning}")
    return found


def users(pattern, sources):
    """Returns the paths of the files that have the sign of the pattern."""
    found, sign = [], re.compile(pattern.sign)
    for room in ROOMS:
        for folder, folders, names in os.walk(os.path.join(sources.root, room)):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__")) and os.path.join(folder, name) != os.path.join(sources.root, PROOFS))
            paths = [os.path.relpath(os.path.join(folder, name), sources.root) for name in sorted(names)]
            found += [path for path in paths if path.endswith(op_sources.KINDS) and not path.endswith(NOT_SEARCHED) and sign.search(sources.read(path))]
    return found


def link(path):
    return f"[{os.path.basename(path)}](../{path})" if not path.startswith("docs/") else f"[{os.path.basename(path)}]({os.path.basename(path)})"


def section(pattern, sources):
    found = users(pattern, sources)
    if pattern.home not in found:
        raise ValueError(f"{pattern.home} has no sign of the pattern: {pattern.name}")
    by_folder = {}
    for path in found:
        by_folder.setdefault(os.path.dirname(path), []).append(link(path))
    yield f"\n## {pattern.name}\n"
    yield filled(pattern.idea) + "\n"
    yield f"- Read first: {link(pattern.home)}"
    yield from (f"- `{folder}`: {', '.join(links)}" for folder, links in by_folder.items())
    if pattern.gain:
        yield filled(f"- Measured, in {link(pattern.gain[0])}: {gain(pattern, sources)}", "  ")
    else:
        yield "- It was not measured alone."


def main():
    sources = op_sources.Sources(sys.argv[1])
    print("# Design patterns of the kernels\n")
    print(filled("Each pattern has its idea, the files that use it, and what was measured. The files are found by what their code includes or calls, and the "
                 "sentences with numbers are read from their comments, which say more. [ops.md](ops.md) explains ops, and [performance.md](performance.md) has "
                 "their times beside other libraries.") + "\n")
    print(f"This command prints the page: `{MAKE}`")
    for pattern in PATTERNS:
        print("\n".join(section(pattern, sources)))


if __name__ == "__main__":
    main()
