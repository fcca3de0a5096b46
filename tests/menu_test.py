# SPDX-License-Identifier: MIT
"""Checks the menu of ops, kernels/kernels.h: it includes every op and has a line for every function that takes a
level."""
import ast
import os
import re
import unittest

import sources

# A declaration at the start of a line whose last parameter is the level.
DECLARED = re.compile(r"^[A-Z]?\w+ (\w+)\([^()]*\bLevel level\);", re.MULTILINE)
# A comment that begins with a call, and the formula that follows it.
LISTED = re.compile(r"^// (\w+)\([^()]*\blevel\):\s+(?:// )?\S", re.MULTILINE)


def op_names(bzl, of="OP_NAMES"):
    """Returns a list of kernels/op.bzl: OP_NAMES, or another one of this name."""
    for statement in ast.parse(bzl).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == of:
            return ast.literal_eval(statement.value)
    raise AssertionError(f"kernels/op.bzl has no {of}")


def missing(menu, headers):
    """Returns the ops without an include and the functions without a line in the menu. `headers` are the texts of
    all ops' headers."""
    included = re.findall(r'^#include "(.*)"$', menu, re.MULTILINE)
    listed = LISTED.findall(menu)
    for op, text in headers.items():
        if f"kernels/{op}/{op}.h" not in included:
            yield f"{op} is not included"
        functions = DECLARED.findall(text)
        if not functions:
            yield f"{op} declares no function with a level"
        yield from (f"{name} of {op} has no line" for name in functions if name not in listed)


class MenuTest(unittest.TestCase):
    def setUp(self):
        def read(path):
            with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
                return file.read()

        self.menu = read("kernels/kernels.h")
        self.headers = {op: read(f"kernels/{op}/{op}.h") for op in op_names(read("kernels/op.bzl"))}

    def test_lists_every_op(self):
        self.assertGreater(len(self.headers), 10, "the ops were not found")
        self.assertEqual(list(missing(self.menu, self.headers)), [])

    def test_can_fail(self):
        for op, header in self.headers.items():
            include = f'#include "kernels/{op}/{op}.h"'
            self.assertIn(f"{op} is not included", missing(self.menu.replace(include, ""), self.headers))
            for name in DECLARED.findall(header):
                shorter = self.menu.replace(f"// {name}(", "// ")
                self.assertIn(f"{name} of {op} has no line", missing(shorter, self.headers))


if __name__ == "__main__":
    unittest.main()
