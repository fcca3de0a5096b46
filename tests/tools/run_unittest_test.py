# SPDX-License-Identifier: MIT
"""Checks that the shards of a test together run each of its cases once."""
import os
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

TMP = os.environ["TEST_TMPDIR"]
CASES = """
import unittest

class Cases(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): pass
    def test_c(self): pass
"""


class ShardsTest(unittest.TestCase):
    def names(self, *arguments, **shard):
        """Runs the three cases. Returns the names of those in test.xml."""
        path, report = os.path.join(TMP, "cases.py"), os.path.join(TMP, "cases.xml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CASES)
        kept = {name: value for name, value in os.environ.items() if "SHARD" not in name}
        subprocess.run([sys.executable, "tools/bazel/run_unittest.py", path, *arguments], env={**kept, "XML_OUTPUT_FILE": report, **shard},
                       check=True, capture_output=True)
        return [case.get("name")[-1] for case in ElementTree.parse(report).iter("testcase")]

    def shard(self, index, shards, *arguments):
        """Returns the names of the cases of one shard, which must say to Bazel that it is one."""
        status = os.path.join(TMP, f"status-{index}-of-{shards}")
        names = self.names(*arguments, TEST_TOTAL_SHARDS=str(shards), TEST_SHARD_INDEX=str(index), TEST_SHARD_STATUS_FILE=status)
        self.assertTrue(os.path.exists(status))
        return names

    def test_without_shards_all_cases_run(self):
        self.assertEqual(self.names(), ["a", "b", "c"])

    def test_each_case_is_in_one_shard(self):
        self.assertEqual(self.shard(0, 2), ["a", "c"])
        self.assertEqual(self.shard(1, 2), ["b"])

    def test_a_named_case_is_in_one_shard(self):
        self.assertEqual(self.names("Cases.test_b"), ["b"])
        self.assertEqual([self.shard(index, 2, "Cases.test_b") for index in (0, 1)], [["b"], []])


if __name__ == "__main__":
    unittest.main()
