# SPDX-License-Identifier: MIT
"""Checks the menu of ops, kernels/kernels.h: it is made from the headers, which have a call and a formula for every function
that takes a level."""
import os
import re
import sys
import unittest

import sources

sys.path.insert(0, "tools/explain")
import menu

# A declaration at the start of a line whose last parameter is the level.
DECLARED = re.compile(r"^[A-Z]?\w+ (\w+)\([^()]*\bLevel level\);", re.MULTILINE)
ENTRY = re.compile(r"// (\w+)\([^()]*\blevel\):\s+(?:// )?\S")
MAKE = "python3 tools/explain/menu.py > kernels/kernels.h"


def missing(headers):
    """Returns the functions without call and formula. `headers` are the texts of all ops' headers."""
    for op, text in headers.items():
        listed = [name for name, (formula, _) in menu.functions(text).items() if ENTRY.match(formula)]
        functions = DECLARED.findall(text)
        if not functions:
            yield f"{op} declares no function with a level"
        for name in functions:
            if name not in listed:
                yield f"kernels/{op}/{op}.h: the comment of {name} does not begin with `{name}(..., level): formula` and a line of its own"


class MenuTest(unittest.TestCase):
    def setUp(self):
        self.headers = menu.headers(sources.root())

    def read(self, path):
        with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
            return file.read()

    def test_every_function_has_a_formula(self):
        self.assertGreater(len(self.headers), 10, "the ops were not found")
        self.assertEqual(list(missing(self.headers)), [])

    def test_the_menu_is_that_of_the_headers(self):
        text = self.read("kernels/kernels.h")
        self.assertTrue(text == menu.menu(self.headers), f"kernels/kernels.h is stale; make it anew with: {MAKE}")
        self.assertIn(MAKE, text)
        self.assertIn(MAKE, self.read("CONTRIBUTING.md"))
        for op, header in self.headers.items():
            self.assertIn(f'#include "kernels/{op}/{op}.h"', text)
            for name in DECLARED.findall(header):
                self.assertIn(f"// {name}(", text)

    def test_can_fail(self):
        for op, header in self.headers.items():
            for name in DECLARED.findall(header):
                found = list(missing(self.headers | {op: header.replace(f"// {name}(", "// ")}))
                self.assertEqual(len(found), 1, found)
                self.assertIn(f"the comment of {name} ", found[0])
                changed = self.headers | {op: header.replace(f"// {name}(", f"// {name}(a, ")}
                self.assertNotEqual(menu.menu(changed), menu.menu(self.headers))


if __name__ == "__main__":
    unittest.main()
