# SPDX-License-Identifier: MIT
"""Checks which share of lines is expected of the inputs that are there, and that too small a share fails. Programs and llvm-cov are made up."""
import os
import shutil
import sys
import unittest
from unittest import mock

sys.path.insert(0, "tests/fuzz")
import coverage  # noqa: E402

PROGRAMS = ["bin/idx_fuzz", "bin/tar_fuzz"]


class CoverageTest(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.join(os.environ["TEST_TMPDIR"], self._testMethodName)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.seeds, self.kept = os.path.join(self.folder, "seeds"), os.path.join(self.folder, "kept")
        for target in ("idx", "tar", "zip"):
            self.write(self.seeds, target, 2)

    def write(self, folder, target, count):
        os.makedirs(os.path.join(folder, target), exist_ok=True)
        for i in range(count):
            open(os.path.join(folder, target, str(i)), "w", encoding="utf-8").close()

    def code(self, run, lines):
        """Returns the exit code if the programs have run `run` of `lines` lines."""
        def add(_, program, parsers):
            parsers.setdefault(program, {line: line < run // len(PROGRAMS) for line in range(lines // len(PROGRAMS))})
        with mock.patch.object(coverage, "add_program", add):
            return coverage.main(self.folder, self.seeds, self.kept, PROGRAMS)

    def test_seeds_alone(self):
        goal, words = coverage.expectation(self.seeds, self.kept, PROGRAMS)
        self.assertEqual(goal, 83)
        self.assertEqual(words, f"inputs: 4 seeds, and 0 that earlier searches have kept in {self.kept}, with none for idx, tar: at least 83 % are expected; "
                                "tools/strata fuzz makes more")
        self.assertEqual([self.code(run, 1000) for run in (1000, 840, 830, 828)], [0, 0, 0, 1])

    def test_kept_inputs_of_each_target(self):
        self.write(self.kept, "idx", 3)
        self.assertIn("4 seeds, and 3 that", coverage.expectation(self.seeds, self.kept, PROGRAMS)[1])
        self.assertIn("with none for tar: at least 83 %", coverage.expectation(self.seeds, self.kept, PROGRAMS)[1])
        self.assertEqual(self.code(840, 1000), 0)
        self.write(self.kept, "tar", 1)
        self.assertTrue(coverage.expectation(self.seeds, self.kept, PROGRAMS)[1].endswith(f"{self.kept}: at least 95 % are expected"))
        self.assertEqual([self.code(run, 1000) for run in (950, 948, 840)], [0, 1, 1])


if __name__ == "__main__":
    unittest.main()
