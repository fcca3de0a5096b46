# SPDX-License-Identifier: MIT
"""gpu_code.py --packages sm_90 --op NAME OLDEST FILE ... --op ...: prints a C++ header with the GPUs on which the code of
each op runs, read from its objects. OLDEST is the oldest compute capability that libraries of level cuda support, or 0."""
import collections
import re
import struct
import sys

EVERY = (0, None)  # compute capabilities from the first to the second; None: all later ones
FATBIN, PTX, CUBIN = 0xBA55ED50, 1, 2
HEADS = 16 + 64  # bytes: the head of a fat binary, and of its first image
OF_ONE_ARCHITECTURE = 1 << 20  # flag of an image whose architecture has the suffix a: no other GPU runs it


def section(elf, wanted):
    """Returns the bytes of a section of a 64-bit ELF file, empty if there is none."""
    table, = struct.unpack_from("<Q", elf, 40)
    size, count, names = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    for name, _, _, _, offset, length in headers:
        start = headers[names][4] + name
        if elf[start:elf.index(b"\0", start)] == wanted.encode():
            return elf[offset:offset + length]
    return b""


def images(fatbins):
    """Yields (kind, compute capability, flags) of each image in a section .nv_fatbin."""
    at = 0
    while at < len(fatbins):
        magic, _, header, size = struct.unpack_from("<IHHQ", fatbins, at)
        if magic == 0 and not any(fatbins[at:at + 8]):
            at += 8  # fill between two of them
            continue
        if magic != FATBIN:
            raise ValueError(f"byte {at} of .nv_fatbin is no start of a fat binary")
        at, end = at + header, at + header + size
        while at < end:
            kind, _, header, size = struct.unpack_from("<HHIQ", fatbins, at)
            yield kind, struct.unpack_from("<I", fatbins, at + 28)[0], struct.unpack_from("<Q", fatbins, at + 40)[0]
            at += header + size


def gpus_of_images(found):
    """A cubin runs on GPUs of its architecture. The driver compiles PTX for these and all later ones."""
    exact, oldest = set(), []
    for kind, capability, flags in found:
        if kind == CUBIN:
            exact.add(capability)
        elif kind == PTX and not flags & OF_ONE_ARCHITECTURE:
            oldest.append(capability)
        else:
            raise ValueError(f"an image of kind {kind} for {capability} is neither a cubin nor PTX for all later GPUs")
    if oldest and min(exact, default=min(oldest)) >= min(oldest):
        return min(oldest), None
    if oldest or len(exact) != 1:
        raise ValueError(f"cubins for {sorted(exact)} and PTX for {sorted(oldest)} are no range of GPUs")
    only = exact.pop()
    return only, only


def gpus_of_object(elf):
    return gpus_of_images(images(section(elf, ".nv_fatbin")))


def gpus_of_source(source):
    """The GPUs that run all variants in a C++ source of triton_compile.py, from the heads of their fat binaries. A variant
    that has a cubin alone keeps the others of the file from other GPUs."""
    variant_images = collections.defaultdict(list)
    for variant, text in re.findall(r"constexpr char (?:k|ptx)_(\w+)\[\] =\n +\"(.{0,%d})" % (4 * HEADS), source):
        letters = re.findall(r"\\([0-7]{3})|(.)", text)[:HEADS]
        variant_images[variant] += images(bytes(int(escape, 8) if escape else ord(letter) for escape, letter in letters))
    if not variant_images:
        raise ValueError("it has no fat binaries")
    return common([gpus_of_images(found) for found in variant_images.values()])


def common(ranges):
    """Returns the GPUs that all ranges have."""
    oldest = max([EVERY[0]] + [first for first, _ in ranges])
    ends = [last for _, last in ranges if last is not None]
    newest = min(ends) if ends else None
    if newest is not None and newest < oldest:
        raise ValueError(f"no GPU runs all of {ranges}")
    return oldest, newest


def gpus_of_file(path):
    with open(path, "rb") as file:
        content = file.read()
    try:
        return gpus_of_object(content) if path.endswith(".o") else gpus_of_source(content.decode())
    except (ValueError, struct.error) as error:
        raise SystemExit(f"{path}: {error}") from error


def literal(gpus):
    return f"{{{gpus[0]}}}" if gpus[1] is None else f"{{{gpus[0]}, {gpus[1]}}}"


def row(name, libraries, files):
    levels = []
    for suffix, limits in (("_triton_kernels.cc", []), (".cu.o", [(libraries, None)])):
        levels.append(literal(common(limits + [gpus_of_file(path) for path in files if path.endswith(suffix)])))
    return f'    {{"{name}", {", ".join(levels)}}},'


def main(words):
    packages = int(words[words.index("--packages") + 1].removeprefix("sm_"))
    rows = []
    for words_of_op in " ".join(words).split(" --op ")[1:]:
        name, libraries, *files = words_of_op.split()
        rows.append(row(name, int(libraries), files))
    listing = "\n".join(rows)
    print(f"""#pragma once

#include <array>
#include <string_view>

#include "kernels/runtime/gpus.h"

namespace strata::kernels {{

// The GPUs on which the code of an op's folder runs. Level cuda of a folder without CUDA code calls libraries.
struct OpGpus {{
  std::string_view folder;
  GpuRange triton, cuda;
}};

inline constexpr GpuRange kGpusOfPackages = {literal((packages, packages))};

inline constexpr std::array<OpGpus, {len(rows)}> kGpusOfOps = {{{{
{listing}
}}}};

}}  // namespace strata::kernels""")


if __name__ == "__main__":
    main(sys.argv[1:])
