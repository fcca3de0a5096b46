# SPDX-License-Identifier: MIT
"""Checks every #include against the table of rooms. Bazel's visibility checks direct dependencies only."""
import collections
import os
import re
import shutil
import unittest

import rooms
import sources

CPP = (".h", ".cc", ".cu", ".cuh")
COMMENTED = CPP + (".py", ".sh", ".bzl")
MAX_LINES = 400
MAX_FILES = 40  # per folder

# Libraries that only one room may include, apart from tests.
HIDDEN = {"mpi.h": "sharding", "nccl.h": "sharding", "yaml-cpp/": "configs"}
LIBTORCH = ("ATen/", "c10/", "torch/", "caffe2/")
TOO_WIDE = {"torch/torch.h": "17 s a file", "ATen/ATen.h": "6 s a file", "torch/all.h": "17 s a file", "torch/extension.h": "17 s a file"}
# Linking LibTorch takes 0.35 s at the start of a program, so the code of `check` does without it.
WITHOUT_LIBTORCH = re.compile(
    r"configs/.*|base/(?!all_threads|run_program).*|(modules|sharding)/config/.*|trainer/config/(?!scalar_type).*|.*_config\.h|"
    r"kernels/attention/pattern/.*|kernels/quantize/number_format\.h|sharding/parameters/flat_layout\.(h|cc)|trainer/data/text/token_file\.(h|cc)|.*\.cuh?")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
NAMESPACE = re.compile(r"namespace ?([\w:]*) \{$")
TYPE = re.compile(r"(?:struct|class|enum|enum class)(?: alignas\(\w+\))? (\w+)(?: final)?(?: :[^;{]*)? \{")


class Sources:
    """The files below a folder and their includes."""

    def __init__(self, folder):
        self.folder = folder
        self.text = {path: self.read(path) for path in sources.files(folder, COMMENTED)}
        self.includes = {path: INCLUDE.findall(text) for path, text in self.text.items() if path.endswith(CPP)}

    def read(self, path):
        with open(os.path.join(self.folder, path), encoding="utf-8") as file:
            return file.read()

    def complaints(self):
        for path, includes in self.includes.items():
            for name in includes:
                yield from self.complaints_about(path, name)
            if WITHOUT_LIBTORCH.fullmatch(path):
                chain = self.way_to_libtorch(path, set())
                if chain:
                    yield f"{path} must know no LibTorch: {' -> '.join(chain)}"
        for path, text in self.text.items():
            if "SPDX-License-Identifier: MIT" not in "\n".join(text.split("\n")[:2]) and not path.endswith(".bzl"):
                yield f"{path} has no line SPDX-License-Identifier: MIT at its top"
            if text.count("\n") > MAX_LINES:
                yield f"{path} has {text.count(chr(10))} lines, more than {MAX_LINES}: two ideas"
        yield from self.types_that_stand_twice()
        for folder, count in collections.Counter(os.path.dirname(path) for path in self.text).items():
            if count > MAX_FILES:
                yield f"{folder} has {count} source files, more than {MAX_FILES}: rooms without walls"

    def complaints_about(self, path, name):
        room, other = rooms.room_of(path), rooms.room_of(name)
        if name in TOO_WIDE:
            yield f"{path} includes {name}, which costs {TOO_WIDE[name]}: name the narrow headers"
        if name.split("/")[0] in sources.ROOMS and "/" in name and not rooms.may_include(room, other):
            yield f"{path} includes {name}: {room} may not know {other}"
        for library, owner in HIDDEN.items():
            if name.startswith(library) and path.split("/")[0] not in (owner, "tests"):
                yield f"{path} includes {name}, which only {owner} may"

    def types_that_stand_twice(self):
        """One executable has many tools or tests, and the linker keeps one destructor of each name."""
        found = {}
        for path in self.includes:
            for name in types(self.text[path]):
                if found.setdefault(name, path) != path:
                    yield f"{path} defines {name}, and so does {found[name]}: a program that has both destroys one as the other"

    def way_to_libtorch(self, path, seen):
        """Returns the chain of includes from `path` to a header of LibTorch, or an empty list."""
        seen.add(path)
        for name in self.includes.get(path, []):
            if name.startswith(LIBTORCH):
                return [path, name]
            if name not in seen:
                rest = self.way_to_libtorch(name, seen)
                if rest:
                    return [path] + rest
        return []


def types(text):
    """Yields the types that a file defines for others, with their namespaces. Templates are left out, and namespaces without a name."""
    spaces, before = [], ""
    for line in text.split("\n"):
        opened, defined = NAMESPACE.match(line), TYPE.match(line)
        if opened:
            spaces.append(opened[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        elif defined and all(spaces) and not before.startswith("template"):
            yield "::".join([*spaces, defined[1]])
        before = line


class RoomsTest(unittest.TestCase):
    def test_every_include_is_allowed(self):
        found = Sources(sources.root())
        self.assertGreater(len(found.includes), 30, "the sources were not found")
        self.assertEqual(list(found.complaints()), [])

    def test_the_table_has_no_circle(self):
        above = set()
        for room, known in rooms.MAY_INCLUDE.items():
            self.assertLessEqual(set(known.split()), above, f"{room} knows a room that stands below it in the table")
            above.add(room)

    def test_the_table_names_folders(self):
        folders = {os.path.dirname(path) for path in sources.files(sources.root(), CPP)}
        for room in rooms.MAY_INCLUDE:
            self.assertTrue(room.startswith("kernels/<op>") or room in folders, f"{room} is no folder with sources")


class ComplaintsTest(unittest.TestCase):
    """The check itself can fail: there is one wrong file for each rule, and a right one."""

    def complaints(self, files):
        folder = os.path.join(os.environ["TEST_TMPDIR"], "tree")
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
            with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                file.write("// SPDX-License-Identifier: MIT\n" + text if "SPDX" not in text else text)
        return list(Sources(folder).complaints())

    def assert_one(self, files, words):
        found = self.complaints(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_allowed(self):
        self.assertEqual(self.complaints({
            "kernels/runtime/a.h": "#include <ATen/core/Tensor.h>\n", "modules/b.cc": '#include "kernels/runtime/a.h"\n#include <vector>\n',
            "sharding/c.cc": "#include <mpi.h>\n", "tests/d_test.cc": '#include "modules/e.h"\n', "modules/e.h": "",
            "kernels/linear/f.cc": '#include "kernels/swiglu/g.h"\n',
            "kernels/linear/linear_proof.cc": '#include "kernels/proof/j.h"\n', "kernels/proof/j.h": "", "trainer/h.cc": '#include "trainer/data/text/i.h"\n'}), [])

    def test_rooms(self):
        for path, name in (("kernels/a.cc", "configs/x.h"), ("configs/a.cc", "kernels/x.h"), ("modules/a.cc", "sharding/x.h"),
                           ("sharding/a.cc", "modules/x.h"), ("trainer/a.cc", "tests/x.h"), ("kernels/a/b.cc", "modules/x.h"),
                           ("sharding/a.cc", "trainer/x.h"), ("modules/a.cc", "trainer/x.h"), ("kernels/runtime/a.h", "kernels/linear/x.h"),
                           ("trainer/checkpoint/a.cc", "trainer/x.h"), ("trainer/data/text/a.cc", "trainer/data/images/x.h"),
                           ("sharding/process/a.cc", "sharding/communication/x.h"), ("base/a.h", "configs/x.h"),
                           ("tools/a.cc", "tests/x.h"), ("kernels/linear/linear.cc", "kernels/proof/x.h"),
                           ("kernels/proof/a.cc", "kernels/linear/x.h"), ("trainer/levels/a.cc", "kernels/proof/x.h")):
            self.assert_one({path: f'#include "{name}"\n', name: ""}, "may not know")
            self.assert_one({path: f"  # include <{name}>\n", name: ""}, "may not know")

    def test_hidden_libraries(self):
        self.assert_one({"trainer/a.cc": "#include <mpi.h>\n"}, "only sharding may")
        self.assert_one({"trainer/a.cc": "#include <yaml-cpp/yaml.h>\n"}, "only configs may")

    def test_wide_headers(self):
        self.assert_one({"modules/a.cc": "#include <torch/torch.h>\n"}, "17 s")

    def test_without_libtorch(self):
        self.assert_one({"configs/a.h": "#include <c10/util/Exception.h>\n"}, "no LibTorch")
        self.assert_one({"kernels/a.cu": "#include <ATen/core/Tensor.h>\n"}, "no LibTorch")
        self.assert_one({"trainer/a_config.h": '#include "trainer/b.h"\n', "trainer/b.h": "#include <ATen/Context.h>\n"},
                        "trainer/a_config.h -> trainer/b.h -> ATen/Context.h")

    def test_types_that_stand_twice(self):
        named = "namespace strata::tools {\nstruct Result {\n};\n}  // namespace strata::tools\n"
        derived = named.replace(" {\n}", " final : Base {\n}")
        self.assert_one({"tools/a.h": named, "tools/b.cc": named.replace("tools", "trainer") + derived}, "defines strata::tools::Result, and so does tools/a.h")
        nameless = named.replace("struct", "namespace {\nstruct").replace("};", "};\n}  // namespace")
        nested = named.replace("Result", "Other").replace("{\n}", "{\n  struct Part {\n  };\n}")
        for other in (named.replace("tools", "trainer"), named.replace("struct", "template <class T>\nstruct"), nameless, nested):
            self.assertEqual(self.complaints({"tools/a.h": named + named.replace("Result", "Part"), "tools/b.h": other}), [])

    def test_license_and_length(self):
        self.assert_one({"modules/a.cc": "// SPDX\n"}, "has no line SPDX")
        self.assert_one({"tools/a.py": "# SPDX\n"}, "has no line SPDX")
        self.assert_one({"modules/a.cc": "//\n" * 400}, "401 lines")
        self.assert_one({f"modules/a{i}.cc": "" for i in range(41)}, "41 source files")


if __name__ == "__main__":
    unittest.main()
