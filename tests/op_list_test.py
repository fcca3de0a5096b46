# SPDX-License-Identifier: MIT
"""The lists of ops that are not generated from OP_NAMES in kernels/op.bzl: what one lacks is said with its file and line."""
import os
import re
import sys
import unittest

import sources

sys.path.insert(0, "tools/explain")
import menu

OP_LIST, LEVELS = "kernels/op.bzl", "kernels/runtime/level.h"
# Files with a list of all levels, in the order of their header.
LISTS_OF_LEVELS = ("tools/advise/evidence.py", "tools/bench/side_by_side.py", "tools/explain/op_sources.py", "tools/launcher/bench.sh")
# Ops that a struct of a shape header names, and the keys of `kernels:` that choose their levels.
STRUCT = re.compile(r"^struct \w+Shape \{.*?^\};", re.MULTILINE | re.DOTALL)
OP = re.compile(r"string_view op\(\) const \{([^}]*)\}")
# Files of each folder, and what the text of one must have.
FILES = {".h": "", ".py": "", ".cc": "", "_shape.h": "", "_proof.cc": "", "_test.cc": r"^TEST\(Formula, "}
PROGRAMS = "_programs.py"  # of a folder whose formula level aot_inductor compiles
TRITON = "_triton.py"  # of a folder that has level triton
TRITON_TEST = "_triton_test.py"  # its results on a CPU
INTERPRETER_TESTS = "tests/kernels/interpreter/"
MODULES = "modules/"  # which ask an op what it does at a level, so that another level needs no look at them
NAMED_LEVEL = re.compile(r"\bLevel::(?!aten\b)\w+")  # aten stands for: nobody calls the op
FORMULA = re.compile(r'formula\("\w+"\)')  # of an op, which may have the name of a kernel
TRITON_KERNEL = re.compile(r'^    "(\w+)": TritonKernel\(', re.MULTILINE)
KEY = re.compile(r'string_view key\(\) const \{ return "(\w+)"; \}')


def ops_and_keys(text):
    """op -> key, of the text of a shape header."""
    found = {}
    for struct in STRUCT.findall(text):
        ops, key = OP.search(struct), KEY.search(struct)
        found.update({op: key.group(1) if key else op for op in re.findall(r'"(\w+)"', ops.group(1) if ops else "")})
    return found


def place(path, text, pattern):
    """path:line of the first line that has the pattern."""
    lines = text.split("\n")
    return f"{path}:{next((i for i, line in enumerate(lines, 1) if re.search(pattern, line)), 1)}"


def complaints(texts):
    """What is missing in which list. `texts` are those of the lists and of the files in the folders of ops, by path."""
    listed = menu.op_names(texts[OP_LIST])
    covered = menu.op_names(texts[OP_LIST], "COVERED_BY_OTHERS")
    folders = {path.split("/")[1] for path, text in texts.items() if path.endswith("/BUILD") and "\nop_library(" in text}
    for op in sorted(folders - set(listed)):
        yield f'{place(OP_LIST, texts[OP_LIST], "^OP_NAMES")}: OP_NAMES lacks "{op}", whose folder has an op_library'
    for op in sorted(set(listed) - folders):
        yield f'{place(OP_LIST, texts[OP_LIST], chr(34) + op + chr(34))}: OP_NAMES has "{op}", and kernels/{op}/BUILD has no op_library'
    covered_ops = {}
    callers = "".join(text[text.find("CALLED_BY"):] for path, text in texts.items() if path.endswith(PROGRAMS))
    for op in sorted(folders):
        header = f"kernels/{op}/{op}_shape.h"
        found = ops_and_keys(texts.get(header, ""))
        if not found:
            yield f"{header}:1: no struct has the sizes of {op}"
        covered_ops.update(found)
        if (op in covered) == (op in found.values()):
            yield f'{place(OP_LIST, texts[OP_LIST], "^COVERED_BY_OTHERS")}: COVERED_BY_OTHERS must have the ops with the key of another, and {op} has {found}'
        for caller in sorted(found) if ".aot_inductor = {" in texts.get(f"kernels/{op}/{op}.cc", "") else []:
            if f'"{caller}": ' not in callers:
                yield f"kernels/{op}/{op}{PROGRAMS}:1: CALLED_BY has no entry for {caller}, and those of other folders neither"
        for ending, pattern in FILES.items():
            path = f"kernels/{op}/{op}{ending}"
            if path not in texts:
                yield f"{path}:1: the folder of an op lacks this file"
            elif not re.search(pattern, texts[path], re.MULTILINE):
                yield f"{path}:1: no test compares the definition with plain loops"
    for key in sorted(set(covered_ops.values()) - (set(listed) - set(covered))):
        yield f"{place(OP_LIST, texts[OP_LIST], '^OP_NAMES')}: {key} is the key of an op, and no op with a key of its own"
    levels = re.findall(r"\w+", re.search(r"enum class Level \{(.*?)\}", texts[LEVELS]).group(1))
    for path in LISTS_OF_LEVELS:
        if not re.search(r"\b" + r"\W+".join(levels) + r"\W+(best; do)?$", texts[path], re.MULTILINE):
            yield f"{place(path, texts[path], 'aten')}: there is no list of the levels {levels}"


def untested_triton_kernels(texts):
    """Triton kernels whose results no test looks at."""
    in_their_folder = "".join(text for path, text in texts.items() if path.startswith(INTERPRETER_TESTS))
    for path, text in sorted(texts.items()):
        interpreted = FORMULA.sub("", in_their_folder + texts.get(path[:-3] + "_test.py", ""))
        for kernel in TRITON_KERNEL.findall(text) if path.endswith(TRITON) else []:
            if f'"{kernel}"' not in interpreted:
                yield f"{place(path, text, kernel)}: no test runs {kernel} in Triton's interpreter, neither {path[:-3]}_test.py nor {INTERPRETER_TESTS}"


def levels_in_modules(texts):
    for path, text in sorted(texts.items()):
        for level in sorted(set(NAMED_LEVEL.findall(text))) if path.startswith(MODULES) else []:
            yield f"{place(path, text, level)}: a module names {level}; expected a question to the op, as in kernels/linear/few_rows.h"


def texts_of_the_checkout():
    paths = [OP_LIST, LEVELS, *LISTS_OF_LEVELS]
    paths += [INTERPRETER_TESTS + name for name in os.listdir(os.path.join(sources.root(), INTERPRETER_TESTS)) if name.endswith("_test.py")]
    for folder, _, names in os.walk(os.path.join(sources.root(), MODULES)):
        paths += [os.path.relpath(os.path.join(folder, name), sources.root()) for name in names if name.endswith((".h", ".cc"))]
    for op in sorted(os.listdir(os.path.join(sources.root(), "kernels"))):
        files = [f"kernels/{op}/BUILD"] + [f"kernels/{op}/{op}{ending}" for ending in [*FILES, PROGRAMS, TRITON, TRITON_TEST]]
        paths += [path for path in files if os.path.exists(os.path.join(sources.root(), path))]
    texts = {}
    for path in paths:
        with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
            texts[path] = file.read()
    return texts


class OpListTest(unittest.TestCase):
    def setUp(self):
        self.texts = texts_of_the_checkout()

    def test_no_list_lacks_an_op(self):
        self.assertEqual(list(complaints(self.texts)), [])

    def test_every_triton_kernel_is_tested(self):
        self.assertEqual(list(untested_triton_kernels(self.texts)), [])
        test = "kernels/rotary/rotary_triton_test.py"
        self.assertIn('"rotary"]', self.texts[test])
        for text in ("", self.texts[test].replace('"rotary"]', "")):
            self.assertIn("runs rotary in Triton's interpreter, neither kernels/rotary/rotary_triton_test.py nor",
                          " ".join(untested_triton_kernels(self.texts | {test: text})))

    def test_no_module_names_a_level(self):
        self.assertGreater(sum(path.startswith(MODULES) for path in self.texts), 50)
        self.assertEqual(list(levels_in_modules(self.texts)), [])
        named = {"modules/norm.h": "\nreturn level_ == kernels::Level::cuda;\n"}
        self.assertIn("modules/norm.h:2: a module names Level::cuda;", next(levels_in_modules(named)))

    def test_keys(self):
        self.assertEqual(ops_and_keys(self.texts["kernels/rms_norm/rms_norm_shape.h"]), {"rms_norm": "rms_norm", "add_rms_norm": "rms_norm"})
        self.assertEqual(ops_and_keys(self.texts["kernels/swiglu/swiglu_shape.h"]), {"swiglu": "activation"})

    def assert_complaint(self, words, path, old, new=""):
        self.assertIn(old, self.texts[path])
        found = list(complaints(self.texts | {path: self.texts[path].replace(old, new)}))
        self.assertTrue(any(words in complaint for complaint in found), found)

    def test_can_fail(self):
        self.assert_complaint('OP_NAMES lacks "swiglu", whose folder', OP_LIST, '    "swiglu",\n')
        self.assert_complaint('OP_NAMES has "swiglu", and kernels/swiglu/BUILD', "kernels/swiglu/BUILD", "op_library(")
        self.assert_complaint("and swiglu has {'swiglu': 'activation'}", OP_LIST, '["swiglu", ', "[")
        self.assert_complaint("and dropout has {'dropout': 'dropout'}", OP_LIST, '["swiglu", ', '["swiglu", "dropout", ')
        self.assert_complaint("and swiglu has {'swiglu': 'swiglu'}", "kernels/swiglu/swiglu_shape.h", '"activation"', '"swiglu"')
        self.assert_complaint("activity is the key of an op, and no op with a key of its own", "kernels/swiglu/swiglu_shape.h", '"activation"', '"activity"')
        self.assert_complaint("rotary_shape.h:1: no struct", "kernels/rotary/rotary_shape.h", "struct RotaryShape", "class Sizes")
        self.assert_complaint("rotary_shape.h:1: no struct", "kernels/rotary/rotary_shape.h", "op() const", "name() const")
        self.assert_complaint("rotary_test.cc:1: no test compares", "kernels/rotary/rotary_test.cc", "TEST(Formula")
        self.assert_complaint("CALLED_BY has no entry for add_rms_norm", "kernels/rms_norm/rms_norm_programs.py", '"add_rms_norm": ')
        self.assert_complaint("CALLED_BY has no entry for linear_cross_entropy", "kernels/cross_entropy/cross_entropy_programs.py", '"linear_cross_entropy": ')
        for path in LISTS_OF_LEVELS:
            self.assert_complaint(f"{path}:", path, "triton")
        self.texts.pop("kernels/rotary/rotary_proof.cc")
        self.assertIn("kernels/rotary/rotary_proof.cc:1: the folder of an op lacks this file", list(complaints(self.texts)))


if __name__ == "__main__":
    unittest.main()
