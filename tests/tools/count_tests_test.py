# SPDX-License-Identifier: MIT
"""Checks the line at the end of `tools/strata test`: it counts the cases that really ran."""
import json
import os
import re
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
LAST = json.dumps({"id": {"progress": {}}, "progress": {}, "lastMessage": True}) + "\n"


class CountTest(unittest.TestCase):
    def setUp(self):
        self.events = []
        self.not_run, self.more, self.lost = "", [], None
        self.file = "events"

    def target(self, name, xml=None, status="PASSED"):
        label = f"//tests:{name}"
        self.events.append({"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": "cc_test rule"}})
        if status is None:
            return
        outputs = []
        if xml is not None:
            self.path = path = os.path.join(TMP, f"{name} {len(self.events)}.xml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(xml)
            outputs = [{"name": "test.xml", "uri": "file://" + path.replace(" ", "%20")}]
        self.events.append({"id": {"testResult": {"label": label}}, "testResult": {"status": status, "testActionOutput": outputs}})

    def count(self):
        """Returns (exit code, last line, whole output). If `lost` is a number, their file lacks the last event and this number of characters."""
        events = "".join((event if isinstance(event, str) else json.dumps(event)) + "\n" for event in self.events)
        for name, text in (("events", events + LAST if self.lost is None else events[:len(events) - self.lost]), ("gpu", self.not_run)):
            with open(os.path.join(TMP, name), "w", encoding="utf-8") as file:
                file.write(text)
        result = subprocess.run([sys.executable, "tools/launcher/count_tests.py", "--events", f"{TMP}/{self.file}", "--not-run", f"{TMP}/gpu",
                                 *self.more], capture_output=True, text=True, check=False)
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
        self.more = ["--more", "failed", "quick start"]
        code, last, text = self.count()
        self.assertEqual((code, last), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("failed: quick start\n", text)

    def test_events_that_end_in_the_middle_of_a_line(self):
        self.target("a", suite(PASSED, FAILED, SKIPPED), "FAILED")
        for name in ("b", "c"):
            self.target(name, status=None)
        self.target("d", suite(PASSED))
        self.lost = 2
        code, last, text = self.count()
        self.assertEqual((code, last), (1, "1 passed, 2 failed, 1 skipped"))
        skipped, failed, damage, _ = text.splitlines()
        self.assertEqual((skipped, failed), ("skipped: //tests:a Suite.left out (no GPU)", "failed: //tests:a Suite.bad (1 != 2)"))
        free = rf"perhaps no space is left on the device of {re.escape(TMP)}: [0-9]+\.[0-9] GiB free"
        self.assertRegex(damage, rf"^failed: the file of events ends in the middle of line 6 \({free}\); targets without a result in it: 3$")

    def test_events_without_their_last_letters(self):
        self.target("good", suite(PASSED))
        self.target("other", suite(PASSED))
        for self.lost in (2, 30, 150):
            code, last, _ = self.count()
            self.assertEqual(code, 1, f"{self.lost} characters are lost: {last}")
        self.lost = 0
        code, last, text = self.count()
        self.assertEqual((code, last), (1, "2 passed, 1 failed, 0 skipped"))
        self.assertIn("failed: the file of events ends after line 4, before its last event (perhaps", text)

    def test_a_file_of_events_that_is_not_there(self):
        self.file = "nowhere"
        code, last, text = self.count()
        self.assertEqual((code, last), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn(f"failed: the file of events {TMP}/nowhere cannot be read: No such file or directory; targets without a result in it: 0", text)

    def test_a_damaged_line_hides_no_other(self):
        self.target("a", suite(PASSED))
        self.target("b", suite(FAILED), "FAILED")
        self.events.insert(2, '{"id": {"testRes')
        code, last, text = self.count()
        self.assertEqual((code, last), (1, "1 passed, 2 failed, 0 skipped"))
        self.assertIn("failed: the file of events is damaged in line 3 (perhaps", text)

    def test_a_file_of_cases_that_is_empty(self):
        self.target("passed", "")
        self.target("crashed", "", "FAILED")
        code, last, text = self.count()
        self.assertEqual((code, last), (1, "0 passed, 2 failed, 0 skipped"))
        free = rf"its test\.xml is empty; perhaps no space is left on the device of {re.escape(TMP)}: [0-9]+\.[0-9] GiB free\)"
        self.assertRegex(text, rf"failed: //tests:passed \({free}\n")
        self.assertRegex(text, rf"failed: //tests:crashed \(it crashed, hung or could not be built, and {free}\n")

    def test_a_file_of_cases_that_is_gone(self):
        self.target("passed", suite(PASSED))
        os.remove(self.path)
        code, last, text = self.count()
        self.assertEqual((code, last), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertIn("failed: //tests:passed (its test.xml cannot be read: No such file or directory)", text)


if __name__ == "__main__":
    unittest.main()
