# SPDX-License-Identifier: MIT
"""Checks `tools/strata explain --patterns`: the page is made from the sources, and a pattern or a number that is gone is found."""
import re
import subprocess
import sys
import unittest

sys.path[:0] = ["tests", "tools/explain"]
import op_sources
import patterns
import sources


class PatternsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = op_sources.Sources(sources.root())

    def with_text(self, path, old, new):
        """Returns the sources as if one file had another text."""
        class Other(op_sources.Sources):
            def read(self, read_path):
                text = super().read(read_path)
                return text.replace(old, new) if read_path == path else text

        self.assertIn(old, self.sources.read(path))
        return Other(sources.root())

    def test_the_page_is_that_of_the_sources(self):
        page = subprocess.run([sys.executable, "-B", "tools/explain/patterns.py", sources.root()], capture_output=True, text=True, check=True).stdout
        self.assertTrue(self.sources.read("docs/patterns.md") == page, f"docs/patterns.md is stale; make it anew with: {patterns.MAKE}")
        self.assertIn(patterns.MAKE, self.sources.read("CONTRIBUTING.md"))
        self.assertEqual(page.count("\n## "), len(patterns.PATTERNS))

    def test_each_pattern_is_told_in_two_sentences_and_used(self):
        self.assertEqual(len({pattern.name for pattern in patterns.PATTERNS}), len(patterns.PATTERNS))
        for pattern in patterns.PATTERNS:
            with self.subTest(pattern.name):
                self.assertEqual(len(re.findall(r"\.(?: |$)", pattern.idea)), 2)
                self.assertIn(pattern.home, patterns.users(pattern, self.sources))

    def test_a_pattern_that_its_best_example_lost_is_found(self):
        pattern = next(each for each in patterns.PATTERNS if each.home == "kernels/cuda/row_team.cuh")
        with self.assertRaisesRegex(ValueError, "row_team.cuh has no sign of the pattern: A team of warps"):
            list(patterns.section(pattern, self.with_text(pattern.home, "RowTeam", "RowCrew")))

    def test_a_file_that_uses_a_pattern_no_more_leaves_its_list(self):
        pattern = next(each for each in patterns.PATTERNS if each.home == "kernels/cuda/work_counter.cuh")
        self.assertIn("kernels/cuda/gelu_gemm.cu", patterns.users(pattern, self.sources))
        changed = self.with_text("kernels/cuda/gelu_gemm.cu", "WorkCounter", "Other")
        changed_include = patterns.Pattern(pattern.name, pattern.idea, pattern.home, r"\bWorkCounter\b")
        self.assertNotIn("kernels/cuda/gelu_gemm.cu", patterns.users(changed_include, changed))

    def test_a_number_that_is_gone_is_found(self):
        pattern = next(each for each in patterns.PATTERNS if each.home == "kernels/cuda/work_counter.cuh")
        self.assertRegex(patterns.gain(pattern, self.sources), r"^With a fixed share of the work, .* took 1\.8 times as long on an H200\.$")
        for old, new in (("With a fixed share", "Otherwise"), ("1.8 times as long on an H200", "longer")):
            with self.assertRaisesRegex(ValueError, "work_counter.cuh has no sentence with a number that begins with: With a fixed share of the work"):
                patterns.gain(pattern, self.with_text(pattern.gain[0], old, new))

    def test_sentences_end_at_a_period_and_not_at_a_point(self):
        self.assertEqual(patterns.sentence("// One. It took 1.5 ms, not\n// 2.25 (b.c is a\n// file).\n// Next.", "It took"), "It took 1.5 ms, not 2.25 (b.c is a file).")
        self.assertIsNone(patterns.sentence("// It took no time", "It took"))
        self.assertIsNone(patterns.sentence("// Nothing.", "It took"))


if __name__ == "__main__":
    unittest.main()
