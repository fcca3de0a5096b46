# SPDX-License-Identifier: MIT
"""The deps of a target bring every header that its files include, and no label that another one of them brings.

    .venv/bin/python -B tests/deps_test.py --mend    takes such labels out of the BUILD files
"""
import os
import re
import sys
import unittest

import packages
import sources

sys.path.insert(0, os.path.join(sources.root(), "tools/bazel"))
import format_build  # noqa: E402

LIBTORCH = "@wheels//:libtorch"
# g++ reads these headers of LibTorch again for each file that does not start with the precompiled ones, in 2 s.
PRECOMPILED = re.compile(r"ATen/core/|ATen/ops/|ATen/TensorOperators|torch/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
EXTERNAL = {
    "gtest/": "@debian//:gtest", "yaml-cpp/": "@debian//:yaml-cpp", "CLI/": "@debian//:cli11", "nlohmann/": "@debian//:nlohmann_json",
    "openssl/": "@debian//:crypto", "zlib.h": "@debian//:zlib", "jpeglib.h": "@debian//:jpeg", "png.h": "@debian//:png",
    "archive": "@debian//:archive", "mpi.h": "@debian//:mpi", "metis.h": "@debian//:metis_headers", "ATen/": LIBTORCH, "c10/": LIBTORCH,
    "torch/": LIBTORCH, "nccl.h": "@wheels//:nccl", "cublasLt.h": "@wheels//:cublaslt", "cudnn_frontend": "@wheels//:cudnn_frontend",
    "cuda": "@wheels//:cuda_headers", "fmt/": "@wheels//:fmt"}


def complaints(tree):
    """What is wrong with the deps of the targets of `tree`, which is a packages.Packages."""
    for text in tree.implied():
        yield f"{text.path}:{text.line}: another label of the deps brings {text}: leave it out"
    for package in tree.opened_in_vain():
        yield f"{package}: no other package needs its default visibility: leave package() out"
    compiled = {}
    for target in [target for target in tree.targets.values() if target.kind in packages.COMPILED and target.label.startswith("//")]:
        own = tree.files_of(target, "srcs", "hdrs")  # some are made by the build
        closure = tree.closure(target.label)
        reached = own.union(*(tree.headers(label) for label in closure))
        for path in sorted(path for path in own if path in tree.texts and path.endswith((".cc", ".h"))):
            for name in INCLUDE.findall(tree.read(path)):
                library = next((label for start, label in EXTERNAL.items() if name.startswith(start)), None)
                if library and library not in closure:
                    yield f"{target.label}: {path} includes {name}, but its deps do not bring {library}"
                elif name.split("/")[0] in sources.ROOMS and name not in reached:
                    yield f"{target.label}: {path} includes {name}, which no library among its deps has"
            if path.endswith(".cc"):
                compiled.setdefault(path, []).append(target.label)
                yield from without_precompiled(tree, target, path)
    for path in sorted(tree.texts):
        if path.endswith("_test.cc") and len(compiled.get(path, [])) != 1:
            yield f"{path}: one test has to compile it, not {compiled.get(path, 'none')}"


def without_precompiled(tree, target, path):
    header = next(filter(PRECOMPILED.match, INCLUDE.findall(tree.read(path))), None)
    is_searched = path.endswith("_fuzz.cc")  # clang compiles it too
    if header and not is_searched and "-include" not in (target.attributes.get("copts") or []):
        yield (f"{target.label}: {path} includes {header}, but does not start with the precompiled headers: "
               "a torch_ rule of library.bzl gives them to its targets")


def without(text, labels):
    """Returns the text of a BUILD file without the Written `labels`."""
    lines = text.encode().split(b"\n")
    for label in sorted(labels, key=lambda label: (label.line, label.start), reverse=True):
        line = lines[label.line - 1]
        before, after = line[:label.start], line[label.end:]
        lines[label.line - 1] = before + after.removeprefix(b",") if after.startswith(b",") else before.rstrip(b", ") + after
    text = b"\n".join(lines).decode()
    return re.sub(r",?\s*\b\w*deps = \[[\s,]*\]", "", text)


def mend():
    tree, by_path = packages.checkout_packages(), {}
    for text in tree.implied():
        by_path.setdefault(text.path, []).append(text)
    for path, labels in by_path.items():
        text = format_build.formatted(without(tree.read(path), labels))
        with open(os.path.join(sources.root(), path), "w", encoding="utf-8") as file:
            file.write(text)


class DepsTest(unittest.TestCase):
    def test_every_target(self):
        tree = packages.checkout_packages()
        self.assertGreater(len(tree.targets), 1000, "the BUILD files were not found")
        self.assertEqual(list(complaints(tree)), [])


class ComplaintsTest(unittest.TestCase):
    """The check itself can fail."""

    def tree(self, build, **files):
        texts = {"base/BUILD": build} | {f"base/{name.replace('_dot_', '.')}": text for name, text in files.items()}
        return packages.Packages(texts)

    def assert_one(self, words, build, **files):
        found = list(complaints(self.tree(build, **files)))
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    LIBRARIES = "cc_library(name = 'a', hdrs = ['a.h'])\ncc_library(name = 'b', hdrs = ['b.h'], deps = [':a'])\n"

    def test_right(self):
        text = '#include "base/a.h"\n#include "base/b.h"\n#include <ATen/ops/add.h>\n#include <vector>\n'
        right = self.LIBRARIES + "cc_library(name = 'c', srcs = ['c.cc'], deps = ['b', '@wheels//:libtorch'], copts = ['-include'])"
        self.assertEqual(list(complaints(self.tree(right, c_dot_cc=text))), [])

    def test_implied(self):
        both = self.LIBRARIES + "cc_library(name = 'c', deps = [':b', '//base:a'])"
        self.assert_one("base/BUILD:3: another label of the deps brings //base:a", both)
        tree = self.tree(both)
        self.assertEqual(without(both, tree.implied()), both.replace(", '//base:a'", ""))
        by_macro = self.LIBRARIES + "c = lambda name, deps: cc_library(name = name, deps = deps + ['b'])\nc(name = 'c', deps = ['a'])"
        self.assertEqual(without(by_macro, self.tree(by_macro).implied()), by_macro.replace(", deps = ['a']", ""))
        loop = self.LIBRARIES + "[cc_library(name = n, deps = ['a'] + more) for n, more in {'c': ['b'], 'd': []}.items()]"
        self.assertEqual(list(complaints(self.tree(loop))), [])  # one of the two needs it
        self.assert_one("brings a:", loop.replace("'d': []", "'d': ['b']"))
        named = self.LIBRARIES + "C = ['a', 'b']\ncc_library(name = 'c', deps = C)"
        self.assertEqual(list(complaints(self.tree(named))), [])  # other rules may take C too

    def test_include(self):
        short = self.LIBRARIES + "cc_library(name = 'c', srcs = ['c.cc'], deps = ['a'])"
        self.assert_one("includes base/b.h, which no library", short, c_dot_cc='#include "base/b.h"\n')
        self.assert_one("do not bring @debian//:zlib", "cc_library(name = 'c', srcs = ['c.cc'])", c_dot_cc="#include <zlib.h>\n")
        hidden = "cc_library(name = 'a', srcs = ['a.h'])\ncc_library(name = 'c', hdrs = ['c.h'], deps = ['a'])"
        self.assert_one("includes base/a.h", hidden, c_dot_h='#include "base/a.h"\n')

    def test_visibility(self):
        opened = "package(default_visibility = ['//base:users'])\ncc_library(name = 'a')\n"
        self.assert_one("//base: no other package needs", opened)
        for user, found in (("cc_library(name = 'b', deps = ['//base:a'])", 0), ("sh_test(name = 'b', args = ['$(location //base:a)'])", 0), ("", 1)):
            tree = packages.Packages({"base/BUILD": opened, "tools/BUILD": user})
            self.assertEqual(len(list(complaints(tree))), found, user)
        shown = opened.replace("'a')", "'a', visibility = ['//tools:__pkg__'])")
        tree = packages.Packages({"base/BUILD": shown, "tools/BUILD": "cc_library(name = 'b', deps = ['//base:a'])"})
        self.assertEqual(list(tree.opened_in_vain()), ["//base"])

    def test_precompiled(self):
        for rule in ("cc_library", "cc_binary"):
            self.assert_one("precompiled", rule + "(name = 'c', srcs = ['c.cc'], deps = ['@wheels//:libtorch'])", c_dot_cc="#include <torch/library.h>\n")

    def test_one_test_compiles_a_file(self):
        self.assert_one("not none", "", c_test_dot_cc="")
        self.assert_one("not ['//base:c', '//base:d']", "[cc_test(name = name, srcs = glob(['*_test.cc'])) for name in ['c', 'd']]", c_test_dot_cc="")


if __name__ == "__main__":
    if "--mend" in sys.argv:
        mend()
    else:
        unittest.main()
