# SPDX-License-Identifier: MIT
"""Every test has a tier of `tools/strata test`: its size, which its BUILD file or the default of a macro states."""
import ast
import os
import unittest

import sources

SIZES = {"small", "medium", "large"}  # unit, integration, stress
DEFAULTS = {"fuzz_target": "small", "instruction_set_tests": "medium", "mpi_test": "medium", "python_test": "medium", "unit_test": "small",
            "unit_tests": "small"}
# Programs that start a run, and what holds them.
RUNS = ("//trainer:train", "//tools:dist", "//tools:dist_without_tests")


def texts_below(node):
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)} if node else set()


def rule_of(call):
    """Returns the rule without the mark of those whose targets use LibTorch."""
    return call.func.id.removeprefix("torch_")


def sizes_of(call, arguments):
    """The sizes that a call of a macro or of a native rule can have; an empty set if it states none."""
    size = arguments.get("size")
    if size is None:
        return {DEFAULTS[rule_of(call)]} if rule_of(call) in DEFAULTS else set()
    if isinstance(size, ast.IfExp):
        return texts_below(size.body) | texts_below(size.orelse) | ({"None"} if "None" in ast.unparse(size.orelse) else set())
    return texts_below(size)


def complaints(path, text):
    """What is wrong with the tiers of the tests of a BUILD file."""
    tree = ast.parse(text)
    # A list of tests has its sizes as the values of a dictionary: for name, size in {"a_test": "small"}.items().
    loops = {call: loop for loop in ast.walk(tree) if isinstance(loop, ast.ListComp) for call in ast.walk(loop.elt) if isinstance(call, ast.Call)}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        if rule_of(call) not in DEFAULTS and not rule_of(call).endswith("_test"):
            continue
        arguments = {keyword.arg: keyword.value for keyword in call.keywords}
        sizes = sizes_of(call, arguments)
        if isinstance(arguments.get("size"), ast.Name):
            sizes = {value.value for part in ast.walk(loops[call].generators[0].iter) if isinstance(part, ast.Dict) for value in part.values}
        name = f"{path}:{call.lineno}: {ast.unparse(arguments['name'])}"
        if not sizes or not sizes <= SIZES:
            yield f"{name} has no size of small, medium and large, so it is in no tier"
        starts = [run for run in RUNS if run in texts_below(arguments.get("data"))]
        starts += ["mpirun"] if rule_of(call) == "mpi_test" else []
        starts += sorted(tag for tag in texts_below(arguments.get("tags")) if tag.startswith("cpu:"))
        if sizes == {"small"} and starts:
            yield f"{name} is small, which is tier unit, but starts programs or ranks: {', '.join(starts)}"


class TiersTest(unittest.TestCase):
    def read(self, path):
        with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
            return file.read()

    def test_every_test_has_one(self):
        paths = list(sources.files(sources.root(), ("BUILD",)))
        self.assertGreater(len(paths), 30, "the BUILD files were not found")
        self.assertEqual([complaint for path in paths for complaint in complaints(path, self.read(path))], [])

    def test_defaults_are_those_of_the_macros(self):
        macros = {}
        for path in sources.files(sources.root(), (".bzl",)):
            for macro in ast.parse(self.read(path)).body:
                if isinstance(macro, ast.FunctionDef) and any(f"native.{rule}_test(" in ast.unparse(macro) for rule in ("cc", "sh", "py")):
                    last = macro.args.args[len(macro.args.args) - len(macro.args.defaults):]
                    macros[macro.name] = {argument.arg: value.value for argument, value in zip(last, macro.args.defaults)
                                          if isinstance(value, ast.Constant)}.get("size")
        self.assertEqual(macros, DEFAULTS)

    def test_can_fail(self):
        for text, words in (("sh_test(name = 'a')", "'a' has no size"),
                            ("python_test(name = 'a', size = 'enormous')", "'a' has no size"),
                            ("python_test(name = 'a', size = 'small' if LONG else None)", "'a' has no size"),
                            ("[python_test(name = n, size = s) for n, s in {'a': 'small', 'b': 'tiny'}.items()]", "n has no size"),
                            ("python_test(name = 'a', size = 'small', data = ['//trainer:train'])", "starts programs or ranks: //trainer:train"),
                            ("mpi_test(name = 'a', size = 'small')", "starts programs or ranks: mpirun"),
                            ("torch_unit_test(name = 'a', tags = ['cpu:2'])", "starts programs or ranks: cpu:2")):
            with self.subTest(text):
                self.assertIn(words, " ".join(complaints("BUILD", text)))
        for text in ("cc_library(name = 'a')", "unit_test(name = 'a')", "sh_test(name = 'a', size = 'small')",
                     "[python_test(name = n, size = s) for n, s in {'a': 'small', 'b': 'large'}.items()]"):
            self.assertEqual(list(complaints("BUILD", text)), [])


if __name__ == "__main__":
    unittest.main()
