# SPDX-License-Identifier: MIT
"""page.py ROOT: prints docs/ops.md, which explains five ops in an order that teaches, from the JSON of op_facts on stdin and
the sources below ROOT."""
import json
import os
import sys
import textwrap

import op_sources
from explain import work_line

# What is new in each op, beside the one before.
IDEAS = {
    "activation": "Each element is computed from one element. Memory is the limit, not arithmetic. So an activation costs least where another op, such as "
                  "linear, applies it before it writes its result.",
    "rms_norm": "A row is reduced to one number, and then divided by it. A kernel that reads the row from memory twice moves half as much again, so kernels "
                "keep the row in registers. The gradient of the weight is a sum over rows.",
    "cross_entropy": "A row of logits may have 100,000 elements, too many for registers. Kernels differ in where they keep the row between two passes. All "
                     "write the gradient over the logits.",
    "linear": "Tensor cores are the limit, not memory. Bias and activation are computed while the product is still in registers.",
    "attention": "Two products with a softmax between them, and a pattern that says which pairs count. Kernels compute tiles, never store all scores, and skip "
                 "tiles without visible pairs.",
}
MAKE = "tools/strata explain --page > docs/ops.md"


def filled(text, indent=""):
    return textwrap.fill(text, 150, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def paragraph(text, indent=""):
    """A comment as Markdown. Its formulas, which are indented, become blocks of code."""
    lines, is_code = [], False
    for line in text.splitlines():
        if line.startswith("  ") != is_code:
            lines.append(indent + "```")
            is_code = not is_code
        lines.append(indent + line[2:] if is_code else filled(indent * bool(lines) + line, indent))
    return "\n".join(lines + [indent + "```"] * is_code)


def level_section(op, level, sources):
    runs, gradient = sources.rows()[level]
    yield f"\n### `{op}` at level `{level}`\n"
    yield filled(f"What runs: {runs}. Differentiated {gradient}.") + "\n"
    for path, text in sources.level_texts(op)[level]:
        yield paragraph(f"- [{os.path.basename(path)}](../{path}): {text}", "  ")


def op_section(facts, sources):
    op = facts["op"]
    yield f"\n## {op}\n"
    yield filled(IDEAS[op]) + "\n"
    yield f"```\n{sources.formula(op)}\n```\n"
    yield paragraph(sources.definition(op)) + "\n"
    folder = sources.folder(op)
    yield paragraph(f"The call, in [{folder}.h](../kernels/{folder}/{folder}.h): {sources.contract(op)}") + "\n"
    shape = facts["shapes"][0]
    yield f"Least work at {shape['shape']} in {shape['dtype']}:\n"
    yield from (f"- {work_line(direction, shape[direction])}" for direction in ("forward", "backward"))
    for level in facts["levels"]:
        if level["devices"]:
            yield from level_section(op, level["level"], sources)


def main():
    sources, facts = op_sources.Sources(sys.argv[1]), {each["op"]: each for each in json.load(sys.stdin)["ops"]}
    print("# Five ops at five levels\n")
    print("Five ops in an order that teaches, from what is bound by memory to tiles. Each is explained by the comments of its own files, which are links: read")
    print("them next. [kernels.md](kernels.md) says what the levels are, and `tools/strata explain` explains all ops, with registers and times.\n")
    print(f"This command prints the page: `{MAKE}`")
    for op in IDEAS:
        print("\n".join(op_section(facts[op], sources)))


if __name__ == "__main__":
    main()
