# SPDX-License-Identifier: MIT
"""Checks the times and budgets that `tools/strata test` reports with --tier and --profile."""
import json
import os
import re
import subprocess
import sys
import unittest

TMP = os.environ["TEST_TMPDIR"]
# The command without a checkout and without Bazel: it prints the tests that it would ask for, and the times that it would judge.
COMMAND = """set -eu
ROOT=nowhere temporary=$TEST_TMPDIR
source tools/launcher/common.sh
stop() { echo "$2"; exit "$1"; }
for name in is_checkout setup make_temporary_folder has_gpu say; do eval "$name() { echo $name \\"\\$@\\"; }"; done
bazel() { if [[ $1 == query ]]; then echo "asked: $3" >&2; else echo "bazel $*"; fi; }
python() { echo "python $*"; }
source tools/launcher/test.sh
command_test "$@" 2>&1
"""
LAST = json.dumps({"id": {"progress": {}}, "progress": {}, "lastMessage": True}) + "\n"


class TestTimesTest(unittest.TestCase):
    def setUp(self):
        self.events = [{"id": {"started": {}}, "started": {}}, {"id": {"testResult": {"label": "//tests:unbuilt"}}, "aborted": {"reason": "X"}}]
        self.lost = None

    def ran(self, label, start, seconds, cases=(), log=None, **result):
        """Adds a run from second `start` on. `cases` are pairs (name, seconds)."""
        files = []
        xml = "".join(f"<testcase classname='S' name='{name}' time='{time}'/>" for name, time in cases)
        for name, text in (("test.xml", f"<testsuites><testsuite>{xml}</testsuite></testsuites>"), ("test.log", log)):
            if text is not None:
                path = os.path.join(TMP, f"{len(self.events)} {name}")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                files.append({"name": name, "uri": "file://" + path.replace(" ", "%20")})
        self.events.append({"id": {"testResult": {"label": label}}, "testResult": {
            "status": "PASSED", "testActionOutput": files, "testAttemptStartMillisEpoch": str(int(1000 * start)),
            "testAttemptDurationMillis": str(int(1000 * seconds)), **result}})

    def report(self, *options):
        """Returns (exit code, lines). If `lost` is a number, their file lacks the last event and this number of characters."""
        events = "".join(json.dumps(event) + "\n" for event in self.events)
        with open(os.path.join(TMP, "events"), "w", encoding="utf-8") as file:
            file.write(events + LAST if self.lost is None else events[:len(events) - self.lost])
        result = subprocess.run([sys.executable, "tools/launcher/test_times.py", "--events", f"{TMP}/events", *options],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.stderr, "")
        return result.returncode, result.stdout.splitlines()

    def unit(self, seconds):
        return self.report("--tier", "unit", "--budget", str(seconds))

    def test_small_tiers_have_a_budget(self):
        sizes = r'asked: (attr(size, "^({})$", tests(//...)) except'
        for options, budget, tests in (("--tier unit", 30, sizes.format("small")), ("--tier=integration", 300, sizes.format("small|medium"))):
            said = self.command(options)
            self.assertRegex(said, rf"(?m)^python .*/test_times.py .*--tier {options[len('--tier '):]} --budget {budget}$")
            self.assertIn(tests, said)
            self.assertRegex(said, "(?s)bazel build .*bazel test ", "what is compiled beside the tests would count")
            self.assertNotIn("trying the quick start", said)
        self.assertIn("STRATA_TEST_ALL=1", self.command("--all"))
        for options in ("", "--tier all", "--all", "--tier stress"):
            self.assertNotIn("test_times", self.command(options))

    def command(self, options):
        return subprocess.run(["bash", "-c", COMMAND, "test", *options.split()], capture_output=True, text=True, check=True).stdout

    def test_tests_beside_each_other_count_once(self):
        self.ran("//tests:a", 100, 10)
        self.ran("//tests:b", 105, 10)
        self.ran("//tests:inside", 106, 2)
        self.ran("//tests:later", 200, 5)
        self.assertEqual(self.unit(20), (0, ["tier unit: 20.0 s of 20 s, 0 results came from a cache"]))

    def test_a_budget_that_is_passed_names_the_slowest(self):
        for number in range(7):
            self.ran(f"//tests:t{number}", 100 * number, number + 1)
        code, lines = self.unit(27.5)
        self.assertEqual(code, 1)
        self.assertIn("failed: the tests of tier unit took 28.0 s, and their budget is 28 s", lines[1])
        self.assertIn("give them a larger size", lines[1])
        self.assertEqual([line.split()[-1] for line in lines[2:]], ["//tests:t6", "//tests:t5", "//tests:t4", "//tests:t3", "//tests:t2"])

    def test_events_that_end_in_the_middle_of_a_line(self):
        self.ran("//tests:a", 100, 10)
        self.ran("//tests:b", 200, 10)
        self.lost = 2
        code, lines = self.unit(20)
        self.assertEqual((code, lines[1:]), (1, ["tier unit: 10.0 s of 20 s, 0 results came from a cache"]))
        free = rf"perhaps no space is left on the device of {re.escape(TMP)}: [0-9]+\.[0-9] GiB free"
        self.assertRegex(lines[0], rf"^failed: times are missing: the file of events ends in the middle of line 4 \({free}\)$")
        code, lines = self.report("--profile")
        self.assertEqual((code, lines[-1][:28]), (1, "failed: times are missing: t"))

    def test_results_from_a_cache_do_not_count(self):
        self.ran("//tests:a", 100, 50, cachedLocally=True)
        self.ran("//tests:b", 100, 50, executionInfo={"strategy": "remote cache hit", "cachedRemotely": True})
        self.ran("//tests:c", 100, 1, executionInfo={"strategy": "local"})
        self.assertEqual(self.unit(30), (0, ["tier unit: 1.0 s of 30 s, 2 results came from a cache"]))

    def test_profile(self):
        self.ran("//tests:quick", 0, 1, [("Fast", 0.25)])
        self.ran("//tests:ranks", 10, 10, [("Slow", 9.5), ("Fast", 0.5)], log="3 passed\nprocessor seconds: 14.000 1.000\n")
        code, lines = self.report("--profile")
        self.assertEqual(code, 0)
        self.assertEqual([line.split() for line in lines if "//" in line], [
            "10.0 s, processor 15.0 s 150 % //tests:ranks".split(), "1.0 s //tests:quick".split(),
            "9.50 s //tests:ranks S.Slow".split(), "0.50 s //tests:ranks S.Fast".split(), "0.25 s //tests:quick S.Fast".split()])

    def test_shards_of_a_target_are_added(self):
        self.ran("//tests:a", 0, 3, log="processor seconds: 1.0 0.5")
        self.ran("//tests:a", 0, 1, log="processor seconds: 0.5 0.0")
        self.ran("//tests:b", 0, 3.5, log="no time")
        lines = [line.split() for line in self.report("--profile")[1] if "//" in line]
        self.assertEqual(lines, ["4.0 s, processor 2.0 s 50 % //tests:a".split(), "3.5 s //tests:b".split()])

    def test_a_damaged_file_of_cases_has_none(self):
        self.ran("//tests:a", 0, 3)
        with open(os.path.join(TMP, "2 test.xml"), "w", encoding="utf-8"):
            pass
        code, lines = self.report("--profile")
        self.assertEqual((code, [line.split() for line in lines if "//" in line]), (0, ["3.0 s //tests:a".split()]))

    def test_only_the_slowest_twenty(self):
        for number in range(25):
            self.ran(f"//tests:t{number}", number, 1, [("A", number)])
        lines = [line for line in self.report("--profile")[1] if "//" in line]
        self.assertEqual(len(lines), 40)
        self.assertEqual(lines[20].split(), "24.00 s //tests:t24 S.A".split())

    def test_processor_time_is_that_of_all_processes(self):
        burn = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
        result = subprocess.run(["tools/bazel/measured_test.sh", "sh", "-c", f"'{sys.executable}' -c '{burn}'; sleep 0.3; exit 3"],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 3)
        self.ran("//tests:a", 0, 0.6, log=result.stderr)
        processor = float(self.report("--profile")[1][2].split()[3])
        self.assertTrue(0.3 <= processor < 0.6, result.stderr)


if __name__ == "__main__":
    unittest.main()
