# SPDX-License-Identifier: MIT
"""Checks the line at the end of `tools/strata test`: it counts the cases that really ran."""
import json
import os
import subprocess
import sys
import unittest

TMP = os.environ["TEST_TMPDIR"]


def suite(*cases):
    return f"<testsuites><testsuite name='s'>{''.join(cases)}</testsuite></testsuites>"


PASSED = "<testcase name='good' status='run' result='completed' classname='Suite'/>"
FAILED = "<testcase name='bad' status='run' classname='Suite'><failure message='1 != 2'/></testcase>"
ERROR = "<testcase name='worse'><error message='exited with 1'/></testcase>"
SKIPPED = "<testcase name='left out' status='run' result='skipped' classname='Suite'><skipped message='no\nGPU'/></testcase>"
DISABLED = "<testcase name='DISABLED_x' status='notrun' result='suppressed' classname='Suite'/>"


class CountTest(unittest.TestCase):
    def setUp(self):
        self.events = []
        self.not_run, self.more = "", ""

    def target(self, name, xml=None, status="PASSED"):
        label = f"//tests:{name}"
        self.events.append({"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": "cc_test rule"}})
        if status is None:
            return
        outputs = []
        if xml is not None:
            path = os.path.join(TMP, f"{name} {len(self.events)}.xml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(xml)
            outputs = [{"name": "test.xml", "uri": "file://" + path.replace(" ", "%20")}]
        self.events.append({"id": {"testResult": {"label": label}}, "testResult": {"status": status, "testActionOutput": outputs}})

    def count(self):
        """Returns (exit code, last line, whole output)."""
        for name, text in (("events", "\n".join(json.dumps(event) for event in self.events)), ("gpu", self.not_run), ("more", self.more)):
            with open(os.path.join(TMP, name), "w", encoding="utf-8") as file:
                file.write(text)
        result = subprocess.run([sys.executable, "tools/launcher/count_tests.py", "--events", f"{TMP}/events", "--not-run", f"{TMP}/gpu",
                                 "--more", f"{TMP}/more"], capture_output=True, text=True, check=False)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()[-1], result.stdout

    def test_cases_of_all_kinds(self):
        self.target("a", suite(PASSED, PASSED, SKIPPED, DISABLED))
        self.target("b", suite(PASSED))
        code, last, text = self.count()
        self.assertEqual((code, last), (0, "3 passed, 0 failed, 2 skipped"))
        self.assertIn("skipped: //tests:a Suite.left out (no GPU)", text)

    def test_each_shard_of_a_target_is_counted(self):
        self.target("a", suite(PASSED, PASSED))
        self.target("a", suite(PASSED), "FAILED")
        self.assertEqual(self.count()[:2], (1, "3 passed, 1 failed, 0 skipped"))

    def test_cases_that_cannot_be_read_do_not_pass(self):
        self.target("a", suite(PASSED) + "junk")
        self.target("b", suite(PASSED))
        code, last, text = self.count()
        self.assertEqual((code, last), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("failed: //tests:a (its test.xml is damaged: junk after document element", text)

    def test_failures(self):
        self.target("a", suite(PASSED, FAILED, ERROR), "FAILED")
        self.target("z", suite(SKIPPED))
        code, _, text = self.count()
        self.assertEqual(code, 1)
        at_end = ["failed: //tests:a Suite.bad (1 != 2)", "failed: //tests:a worse (exited with 1)", "1 passed, 2 failed, 1 skipped"]
        self.assertEqual(text.splitlines()[-3:], at_end)

    def test_a_crash_is_a_failure_even_if_its_cases_passed(self):
        self.target("crashed", suite(PASSED), "FAILED")
        self.target("hung", None, "TIMEOUT")
        self.target("broken", "<testsuites", "FAILED")
        self.assertEqual(self.count()[:2], (1, "1 passed, 3 failed, 0 skipped"))

    def test_a_target_without_cases_counts_as_one(self):
        self.target("plain", None)
        self.target("empty", suite())
        self.assertEqual(self.count()[:2], (0, "2 passed, 0 failed, 0 skipped"))

    def test_what_was_not_built_has_failed(self):
        self.target("good", suite(PASSED))
        self.target("unbuilt", status=None)
        self.events.append({"id": {"targetCompleted": {"label": "//trainer:library"}}, "completed": {}})
        self.assertEqual(self.count()[:2], (1, "1 passed, 2 failed, 0 skipped"))

    def test_what_needs_a_gpu_is_skipped_and_not_failed(self):
        self.target("good", suite(PASSED))
        self.target("gpu", status=None)
        self.not_run = "//tests:gpu\n"
        code, last, text = self.count()
        self.assertEqual((code, last), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: //tests:gpu (needs a GPU)", text)

    def test_nothing_is_not_a_success(self):
        self.assertEqual(self.count()[:2], (1, "0 passed, 0 failed, 0 skipped"))

    def test_what_ran_outside(self):
        self.target("good", suite(PASSED))
        self.more = "failed quick start\n"
        self.assertEqual(self.count()[:2], (1, "1 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
