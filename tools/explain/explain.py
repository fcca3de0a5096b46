# SPDX-License-Identifier: MIT
"""explain.py ROOT BUILT: prints what an op is and what its levels do, from the JSON of op_facts on stdin, the sources below
ROOT and the files below BUILT that were compiled from them."""
import glob
import json
import os
import sys
import textwrap

import kernel_resources
import op_sources


def wrapped(text, indent=2):
    """Prints text at a readable width. Lines of formulas, which are indented, are not broken."""
    for line in text.splitlines():
        space = " " * indent
        print(space + line if line.startswith("  ") else textwrap.fill(line, 118, initial_indent=space, subsequent_indent=space,
                                                                     break_long_words=False, break_on_hyphens=False))


def scaled(number, unit):
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= factor:
            return f"{number / factor:.3g} {prefix}{unit}"
    return f"{number:.3g} {unit}"


def work_line(direction, work):
    if not work["bytes"]:
        return f"{direction}: none"
    if not work["flops"]:
        return f"{direction}: {scaled(work['bytes'], 'B')}, no matrix product"
    return f"{direction}: {scaled(work['bytes'], 'B')}, {scaled(work['flops'], 'FLOP')}, {work['flops'] / work['bytes']:.3g} FLOP a byte"


def print_shapes(facts):
    print("\nleast work, with every input read, every result written and every matrix product computed once:")
    for shape in facts["shapes"]:
        print(f"  {shape['shape']} in {shape['dtype']}")
        for direction in ("forward", "backward"):
            print("    " + work_line(direction, shape[direction]))


def print_kernels(level, root, built, folder):
    """Prints the kernels of a level that was compiled from this folder's sources."""
    if level not in ("triton", "cuda"):
        return
    ending, read = ("_triton.py", kernel_resources.triton_kernels) if level == "triton" else (".cu", kernel_resources.cuda_kernels)
    if not glob.glob(f"{root}/kernels/{folder}/*{ending}"):
        return print("    kernels: those of libraries and of other ops")
    cuobjdump = kernel_resources.find_cuobjdump()
    if cuobjdump is None:
        return print("    kernels: not shown, because neither PATH nor the wheels have cuobjdump")
    lines = list(kernel_resources.summary(read(cuobjdump, os.path.join(built, "kernels", folder))))
    if not lines:
        return print(f"    kernels: not shown, because {built} has none of them; tools/strata explain builds them")
    print("    kernels for Hopper" + (", without the shared memory that a launch adds:" if level == "cuda" else ":"))
    for line in lines:
        print("      " + line)


def print_levels(facts, sources, root, built):
    print(f"\nlevels on {facts['device']}:")
    texts, rows = sources.level_texts(facts["op"]), sources.rows()
    for level in facts["levels"]:
        name = level["level"]
        there = "exists here" if not level["absent"] else f"not here, {level['absent']}"
        print(f"\n  {name}: {there}; devices: {', '.join(level['devices']) or 'none'}")
        if not level["devices"]:
            continue
        runs, gradient = rows[name]
        wrapped(f"What runs: {runs}." + (f" Differentiated {gradient}." if facts["differentiated"] else ""), 4)
        for path, text in texts[name]:
            print(f"    {path}:")
            wrapped(text, 6)
        print_kernels(name, root, built, sources.folder(facts["op"]))


def print_plan(plan):
    stale = "" if plan["same_kernels"] else ", with other kernels than those of this build"
    print(f"\nmeasured for {plan['config']} on {plan['device']}{stale}, microseconds forward and backward:")
    for row in plan["rows"]:
        times = " ".join(f"{row[direction]:10.1f}" if direction in row else "         -" for direction in ("forward", "backward"))
        print(f"  {row['level']:13}{times}  {row['shape']}" + (f": {row['not_timed']}" if row["not_timed"] else ""))
    if not plan["rows"]:
        print("  nothing of this op")
    print(f"  best for key {plan['key']}: {plan['best'] or 'not measured'}")


def explain():
    root, built, facts = sys.argv[1], sys.argv[2], json.load(sys.stdin)
    sources = op_sources.Sources(root)
    if "ops" in facts:
        for each in facts["ops"]:
            print(sources.formula(each["op"]))
        return
    op = facts["op"]
    wrapped(sources.formula(op), 0)
    print()
    wrapped(sources.definition(op), 0)
    if contract := sources.contract(op):
        print(f"\nkernels/{sources.folder(op)}/{sources.folder(op)}.h says of the call:")
        wrapped(contract)
    print_shapes(facts)
    print_levels(facts, sources, root, built)
    if "plan" in facts:
        print_plan(facts["plan"])


def main():
    try:
        explain()
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
