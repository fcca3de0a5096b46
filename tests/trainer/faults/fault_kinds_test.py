# SPDX-License-Identifier: MIT
"""Each case that injects a fault says what it has seen, by a helper that compares the exit code. The command that counts them counts
only what was seen, and docs/faults.md has their number."""

import ast
import collections
import io
import os
import re
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

sys.path[:0] = ["tests", "tests/trainer", "tests/trainer/faults"]

import fault_kinds  # noqa: E402
import sources  # noqa: E402
from training_runs import expect_fault  # noqa: E402

ROW = re.compile(r"^\| kinds of faults .* \| (\d+) \| (\d+), with the exit codes ([\d, ]+) and (\d+) \|", re.MULTILINE)


def read(path):
    with open(os.path.join(sources.root(), path), encoding="utf-8") as file:
        return file.read()


def says(call):
    """Returns true for expect_fault(...), and for a call with fault=..., which is passed to it."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    return name == "expect_fault" or any(word.arg == "fault" and not (isinstance(word.value, ast.Constant) and not word.value.value) for word in call.keywords)


def silent(path, text, cases):
    """Yields the cases of a test that do not say what they have seen."""
    if path.endswith(".cc"):
        begins = [match.start() for match in re.finditer(r"^TEST\w*\(", text, re.MULTILINE)] + [len(text)]
        blocks = {text[begin:].partition("\n")[0]: text[begin:end] for begin, end in zip(begins, begins[1:])}
        spoken = [head for head, block in blocks.items() if re.search(r"^\s+expect_fault\(job, ", block, re.MULTILINE)]
    else:
        functions = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        spoken = [function.name for function in functions if any(isinstance(node, ast.Call) and says(node) for node in ast.walk(function))]
    yield from (case for case in cases if not any(case in name for name in spoken))


class FaultKindsTest(unittest.TestCase):
    def test_each_case_says_what_it_has_seen(self):
        for path, cases in fault_kinds.KINDS.items():
            self.assertEqual(list(silent(path, read(path), cases)), [], path)

    def test_a_case_that_does_not_is_named(self):
        text = 'TEST(Fault, Ends) {\n  expect_fault(job, "kill", 137);\n}\nTEST(Fault, Waits) {\n  // expect_fault(job, "stop", 7);\n  EXPECT_EQ(job.wait(), 7);\n}\n'
        self.assertEqual(list(silent("a.cc", text, ["Ends", "Waits", "Gone"])), ["Waits", "Gone"])
        text = ('def test_a(self):\n    self.train("a", expect=5, fault="nan")\ndef test_b(self):\n    self.train("b", expect=5)\n    # fault="nan"\n'
                'def test_c(self):\n    expect_fault(self, "c", 7, 7)\ndef test_d(self):\n    self.train("d", fault=None)\n')
        self.assertEqual(list(silent("a.py", text, ["test_a", "test_b", "test_c", "test_d"])), ["test_b", "test_d"])

    def test_only_what_has_ended_with_the_code_is_said(self):
        said = io.StringIO()
        with redirect_stdout(said):
            expect_fault(self, "a kind", 7, 7)
            with self.assertRaises(AssertionError):
                expect_fault(self, "a run that went on", 7, 0)
        self.assertEqual(said.getvalue(), "fault: a kind, 7\n")

    def test_only_what_was_seen_is_counted(self):
        kinds = sorted(fault_kinds.wanted())
        with tempfile.TemporaryDirectory() as folder:
            def write(lines):
                for path in fault_kinds.KINDS:
                    place = os.path.join(folder, os.path.splitext(path)[0], "shard_1_of_4")
                    os.makedirs(place, exist_ok=True)
                    with open(os.path.join(place, "test.log"), "w", encoding="utf-8") as file:
                        file.write("Running tests\n." + "".join("fault: %s, %d\n" % line[1:] for line in lines if line[0] == path) + "OK (skipped=1)\n")

            self.assertEqual(fault_kinds.seen(folder), set(), "no log")
            write(kinds)
            self.assertEqual(fault_kinds.seen(folder), set(kinds))
            path, kind, code = kinds[7]
            for changed in [], [(path, kind, code + 1)], [(path, "another kind", code)], [("tests/trainer/start_test.py", kind, code)]:
                write(kinds[:7] + kinds[8:] + changed)  # the case was skipped, or its injection is gone or does something else
                self.assertEqual(set(kinds) - fault_kinds.seen(folder), {kinds[7]}, changed)

    def test_the_scorecard_has_their_number(self):
        numbers = collections.Counter(code for _, _, code in fault_kinds.wanted())
        row = ROW.search(read("docs/faults.md"))
        self.assertIsNotNone(row, "docs/faults.md has no such row")
        goal, number, codes, last = row.groups()
        self.assertEqual(int(number), sum(numbers.values()))
        self.assertGreaterEqual(int(number), int(goal))
        self.assertEqual([*map(int, codes.split(", ")), int(last)], sorted(numbers))


if __name__ == "__main__":
    unittest.main()
