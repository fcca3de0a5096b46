# SPDX-License-Identifier: MIT
"""A target whose files include tensors or operators of LibTorch has LibTorch among its deps. Only then the files start with the precompiled
headers (tools/bazel/library.bzl), without which g++ reads them again for each file, in 2 s."""
import ast
import os
import re
import unittest

import sources

MACROS = {"binary", "library", "mpi_test", "program", "rank_tests", "unit_test", "unit_tests"}
# op_library has LibTorch itself. The macros above take the place of these rules of Bazel.
RULES = {"cc_binary", "cc_library", "cc_test"}
HEADER = re.compile(r"^#include <((?:ATen/core/|ATen/ops/|ATen/TensorOperators|torch/)[^>]+)>", re.MULTILINE)


def texts_below(node):
    return [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)] if node else []


def complaints(text, read):
    """What is wrong with the deps in a BUILD file. `read` returns the text of a file of its folder, or "" if there is none."""
    for call in ast.walk(ast.parse(text)):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in MACROS | RULES:
            continue
        arguments = {keyword.arg: keyword.value for keyword in call.keywords}
        names = texts_below(arguments.get("tests")) or ([] if "srcs" in arguments or "executable" in arguments else texts_below(arguments["name"]))
        for file in [name + ".cc" for name in names] + texts_below(arguments.get("srcs")):
            header = HEADER.search(read(file)) if file.endswith(".cc") else None
            if header and call.func.id in RULES:
                yield f"line {call.lineno}: {call.func.id} compiles {file}, which includes {header[1]}: a macro of library.bzl gives it the precompiled headers"
            elif header and "@wheels//:libtorch" not in texts_below(arguments.get("deps")):
                yield f"line {call.lineno}: {file} includes {header[1]}, but @wheels//:libtorch is not among the deps"


def content(path):
    if not os.path.exists(path):
        return ""  # it is generated, or of another folder
    with open(path, encoding="utf-8") as file:
        return file.read()


class LibtorchDepsTest(unittest.TestCase):
    def test_every_target(self):
        found, paths = [], list(sources.files(sources.root(), ("BUILD",)))
        self.assertGreater(len(paths), 30, "the BUILD files were not found")
        for path in paths:
            folder = os.path.join(sources.root(), os.path.dirname(path))
            found += [f"{path}: {words}" for words in complaints(content(os.path.join(folder, "BUILD")), lambda name, at=folder: content(os.path.join(at, name)))]
        self.assertEqual(found, [])

    def test_can_fail(self):
        files = {"a.cc": "#include <ATen/ops/add.h>\n", "b.cc": "#include <c10/util/Half.h>\n", "a.h": "#include <ATen/core/Tensor.h>\n"}
        for text, words in (("library(name = 'a', deps = [':b'])", "a.cc includes ATen/ops/add.h, but"), ("library(name = 'a')", "a.cc includes"),
                            ("unit_tests(name = 'tests', tests = ['b', 'a'], deps = [])", "a.cc includes"),
                            ("program(name = 'c', srcs = ['b.cc', 'a.cc'])", "a.cc includes"),
                            ("cc_binary(name = 'c', srcs = ['a.cc'], deps = ['@wheels//:libtorch'])", "cc_binary compiles a.cc")):
            with self.subTest(text):
                self.assertIn(words, " ".join(complaints(text, lambda name: files.get(name, ""))))
        for text in ("library(name = 'a', deps = ['@wheels//:libtorch'])", "library(name = 'b')", "cc_binary(name = 'a', srcs = ['b.cc'])",
                     "mpi_test(name = 'a', executable = ':b')", "library(name = 'c', hdrs = ['a.h'])"):
            self.assertEqual(list(complaints(text, lambda name: files.get(name, ""))), [])


if __name__ == "__main__":
    unittest.main()
