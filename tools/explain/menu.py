# SPDX-License-Identifier: MIT
"""Prints kernels/kernels.h, the menu of all ops, from kernels/op.bzl and the headers of the ops."""
import ast
import os
import re

# The comment of a function whose last parameter is the level: call and formula, then what the header says of the call.
COMMENT = re.compile(r"((?:^// .*\n)+)^//\n((?:^//.*\n)+)^[\w:<>]+ (\w+)\([^()]*\bLevel level\);", re.MULTILINE)
HEAD = """// SPDX-License-Identifier: MIT
// The menu: every op of Strata with its call, its formula and its header, which gives shapes, errors and saved tensors.
// `python3 tools/explain/menu.py > kernels/kernels.h` makes it from these headers.
//
// An op is a function of tensors whose last argument is the level, the implementation to call: aten, torchscript,
// aot_inductor, triton or cuda. All levels compute the same formula. Autograd differentiates all ops but those that run
// once a step: updates of weights, and sum_of_squares. At level torchscript it differentiates the formula itself and
// saves what it needs; the headers name the tensors that the other levels save.
//
// An op throws a ValueError if its arguments do not match. It throws a c10::Error if it has no kernel at this level on
// the device of its tensors, and never uses another level instead. The header kernels/level_matrix.h lists the levels
// of each op.
#pragma once
"""


def op_names(bzl, of="OP_NAMES"):
    """Returns a list of kernels/op.bzl: OP_NAMES, or another one of this name."""
    for statement in ast.parse(bzl).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == of:
            return ast.literal_eval(statement.value)
    raise AssertionError(f"kernels/op.bzl has no {of}")


def functions(header):
    """name -> (call and formula, what the header says of the call), for the functions of a header that take a level."""
    return {name: (formula, contract) for formula, contract, name in COMMENT.findall(header) if formula.startswith(f"// {name}(")}


def headers(root):
    """op -> the text of its header, in the order of OP_NAMES."""
    def read(path):
        with open(os.path.join(root, "kernels", path), encoding="utf-8") as file:
            return file.read()

    return {op: read(f"{op}/{op}.h") for op in op_names(read("op.bzl"))}


def menu(texts):
    parts = ("".join(formula for formula, _ in functions(text).values()) + f'#include "kernels/{op}/{op}.h"\n' for op, text in texts.items())
    return "\n".join([HEAD, *parts])


if __name__ == "__main__":
    print(menu(headers(os.path.join(os.path.dirname(__file__), "..", ".."))), end="")
