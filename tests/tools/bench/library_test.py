# SPDX-License-Identifier: MIT
"""Checks bench kernels with a library of others: what is proved is timed, and what is not is refused before anything is timed."""
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from bench_runs import BENCH, BenchRuns  # noqa: E402

LIBRARY = os.path.abspath("tests/kernels/candidates/libcandidates.so")
EXAMPLE = os.path.abspath("tests/kernels/candidates/my_norm.cc")
FLAGS, PAGE = os.path.abspath("tools/bench/kernels/candidate_flags.py"), os.path.abspath("docs/kernels.md")
BLOCK = r"```%s\n(.*?)\n```"


class LibraryTest(BenchRuns):
    def setUp(self):
        super().setUp()
        self.library = shutil.copyfile(LIBRARY, self.folder + "/candidates.so")

    def refused(self, *arguments, expect, mistake=""):
        output, errors = self.run_program(BENCH, "--device", "cpu", "--library", *arguments, "--json", self.folder + "/rows", expect=expect,
                                          environment={"STRATA_TEST_MISTAKE": mistake})  # fmt: skip
        self.assertNotIn(" us ", output)
        if os.path.exists(self.folder + "/rows"):
            self.assertEqual(os.path.getsize(self.folder + "/rows"), 0)
        return errors

    def test_a_kernel_that_is_proved_is_timed_beside_the_levels(self):
        rows = self.rows("--library", self.library, "--op", "rms_norm", "--level", "aten", "--dtype", "fp32")
        self.assertEqual([(row["op"], row["level"], row["direction"]) for row in rows],
                         [("rms_norm", level, direction) for level in ("aten", "library") for direction in ("forward", "backward")])  # fmt: skip
        for row in rows:
            self.assertGreater(row["microseconds"], 0)
            self.assertLessEqual(row["error"], 1)
        self.assertRegex(self.output, r"^rms_norm fp32 library: proved by \d+ calls of \d+ cases, error 0\.\d+ of what is allowed\n")

    def test_without_an_op_all_that_the_library_has_is_timed_in_each_type(self):
        rows = self.rows("--library", self.library, "--level", "aten")
        self.assertEqual({row["op"] for row in rows}, {"rms_norm", "add_rms_norm"})
        proved = re.findall(r"^(\w+) (\w+) library: proved", self.output, re.MULTILINE)
        self.assertEqual(proved, [(op, dtype) for op in ("rms_norm", "add_rms_norm") for dtype in ("fp32", "bf16", "fp16")])

    def test_a_wrong_kernel_is_refused_with_case_tensor_row_and_error(self):
        errors = self.refused(self.library, "--op", "rms_norm", "--dtype", "fp32", mistake="scales by 1.02", expect=5)
        self.assertIn("candidates.so is not proved, so nothing is timed\n", errors)
        self.assertRegex(errors, r"rms_norm fp32 library: \d+ of \d+ calls do not agree with the formula\n")
        failures = re.findall(r"^ +(rms_norm_2x3x8, .*)$", errors, re.MULTILINE)
        self.assertEqual(len(failures), 5, errors)
        self.assertRegex(failures[0], r"^rms_norm_2x3x8, contiguous inputs: output 0: .* in rows 0 to 5 is [0-9.e-]+, allowed are [0-9.e-]+;")
        errors = self.refused(self.library, "--op", "add_rms_norm", "--dtype", "bf16", mistake="forgets the gradient of the sum", expect=5)
        self.assertIn("gradient of leaf 0: ", errors)
        errors = self.refused(self.library, "--op", "rms_norm", "--dtype", "bf16", mistake="refuses all", expect=5)
        self.assertRegex(errors, r"rms_norm bf16 library: no call agrees with the formula, (\d+) of \1 are refused\n +refused: rms_norm/library: no\n")

    def test_results_that_are_kept_for_a_size_are_not_timed(self):
        output, _ = self.run_program(BENCH, "--device", "cpu", "--library", self.library, "--op", "rms_norm", "--level", "aten", "--dtype", "fp32",
                                     environment={"STRATA_TEST_MISTAKE": "keeps results of large sizes"}, expect=5)  # fmt: skip
        self.assertRegex(output, r"^rms_norm fp32 library: proved by ")
        self.assertIn("with other values after it was timed: result 0 ", output)

    def test_calls_that_are_refused_are_counted(self):
        output, _ = self.run_program(BENCH, "--device", "cpu", "--library", self.library, "--op", "rms_norm", "--level", "aten", "--dtype", "fp32",
                                     environment={"STRATA_TEST_MISTAKE": "refuses odd widths"})  # fmt: skip
        self.assertRegex(output, r"\n  it refused \d+ calls: rms_norm/library: D is \d+, expected a multiple of 8\n")

    def test_what_is_no_such_library_is_refused(self):
        self.assertIn(f"--library {self.folder}/none.so: it cannot be opened", self.refused(self.folder + "/none.so", expect=2))
        self.assertIn(f"--library {self.config} is no shared library", self.refused(self.config, expect=2))
        self.assertIn("--op linear: " + self.library + " has kernels of rms_norm, add_rms_norm only", self.refused(self.library, "--op", "linear", expect=2))
        os.chmod(self.library, 0o666)
        self.assertIn("candidates.so: other users can write it, expected chmod go-w", self.refused(self.library, expect=2))

    def test_the_example_of_the_page_is_proved(self):
        with open(PAGE, encoding="utf-8") as file:
            section = file.read().partition("## Having your own kernel proved\n")[2].partition("\n## ")[0]
        source, commands = (re.search(BLOCK % kind, section, re.DOTALL).group(1) for kind in ("cpp", "bash"))
        compiling, proving = commands.splitlines()
        shutil.copyfile(EXAMPLE, self.folder + "/my_norm.cc")
        with open(EXAMPLE, encoding="utf-8") as file:
            self.assertEqual(source.splitlines(), file.read().splitlines()[2:])  # without license and comment
        options = subprocess.run([sys.executable, "-B", FLAGS], check=True, capture_output=True, text=True).stdout
        words, flags = compiling.split("$(tools/strata bench flags)")[0].split(), options.split()
        self.assertEqual(compiling, " ".join(words) + " $(tools/strata bench flags)")
        self.run_program(*words, "-Wall", "-Werror", *flags)
        self.assertRegex(proving, "^tools/strata bench kernels ")
        arguments = proving.split()[3:]
        self.assertIn("--library", arguments)
        arguments[arguments.index("--library") + 1] = self.folder + "/my_norm.so"
        rows = self.rows(*arguments, "--level", "aten", "--dtype", "bf16")
        self.assertEqual([(row["level"], row["direction"]) for row in rows if "microseconds" in row][2:], [("library", "forward"), ("library", "backward")])


if __name__ == "__main__":
    unittest.main()
