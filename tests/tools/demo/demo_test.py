# SPDX-License-Identifier: MIT
"""What a demo's claims are worth, and what the command prints and returns, with demos that run nothing or a small script."""
import contextlib
import glob
import io
import os
import subprocess
import sys
import time
import types
import unittest
from unittest import mock

DEMOS = os.path.abspath("tools/demo")
sys.path[:0] = [DEMOS, os.path.dirname(DEMOS)]

import findings  # noqa: E402
import lab  # noqa: E402
import main  # noqa: E402


def demo(check, run=lambda lab: None):
    """A module as a file of tools/demo is one."""
    module = types.ModuleType("pretended", "what it shows\n\nand how")
    module.run, module.check, module.READ = run, check, "docs/learn.md"
    return module


class FindingsTest(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(findings.equal("bytes", 1234567, 1234567).state, findings.HOLDS)
        wrong = findings.equal("bytes", 1234567, 1234568)
        self.assertEqual(str(wrong), "does not hold: bytes\n    expected: 1,234,567\n    came: 1,234,568")

    def test_close(self):
        self.assertEqual(findings.close("losses", [2, 1], [2, 1.05], 0.1).state, findings.HOLDS)
        for came in ([2, 1.2], [2], [2, 1, 1], [2, None], [2, float("nan")], [float("nan"), 1]):
            with self.subTest(came):
                self.assertEqual(findings.close("losses", [2, 1], came, 0.1).state, findings.FAILS)
        self.assertEqual(findings.close("losses", [], [], 0.1).state, findings.FAILS)
        self.assertIn("at step 2: 1 and 1.2", findings.close("losses", [2, 1], [2, 1.2], 0.1).came)

    def test_falling(self):
        self.assertEqual(findings.falling("bytes", {"a": 3, "b": 2, "c": 1}).state, findings.HOLDS)
        self.assertEqual(findings.falling("bytes", {"a": 3, "b": 3, "c": 1}).state, findings.FAILS)


class MainTest(unittest.TestCase):
    def run_main(self, modules, *arguments):
        """Runs the command with these demos and returns its exit code and output."""
        out = io.StringIO()
        with mock.patch.object(main, "DEMOS", tuple(modules)), mock.patch.object(main, "demo_of", modules.get), \
                mock.patch.object(sys, "argv", ["demo", *arguments]), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                code = main.main()
            except SystemExit as end:
                code = end.code
        return code, out.getvalue()

    def test_demos_that_hold(self):
        good = demo(lambda results: [findings.equal("one", 1, 1), findings.not_shown("two", "there is no GPU"), findings.seen("three ms")])
        code, said = self.run_main({"a": good, "b": good}, "all", "--validate")
        self.assertEqual(code, 0)
        self.assertRegex(said, r"^a: 1 of 1 claims hold, 1 not shown here; .* s\nb: 1 of 1 claims hold, 1 not shown here; .* s\n"
                               r"all: 2 of 2 claims hold, 2 not shown here; .* s\n$")
        code, said = self.run_main({"a": good}, "a")
        self.assertEqual(code, 0)
        for words in ("a: what it shows\n\nand how\n", "holds: one\n", "not shown here: two; there is no GPU\n", "seen: three ms\n",
                      "Read next: docs/learn.md"):
            self.assertIn(words, said)

    def test_what_is_not_shown_is_not_passed(self):
        _, said = self.run_main({"a": demo(lambda results: [findings.not_shown("two", "there is no GPU")])}, "a", "--validate")
        self.assertIn("a: 0 of 0 claims hold, 1 not shown here", said)

    def test_a_claim_that_does_not_hold(self):
        good, bad = demo(lambda results: [findings.equal("one", 1, 1)]), demo(lambda results: [findings.equal("losses", 1, 2)])
        code, said = self.run_main({"a": bad, "b": good}, "all", "--validate")
        self.assertEqual(code, 1)
        self.assertIn("a: does not hold: losses\n    expected: 1\n    came: 2\na: 0 of 1 claims hold", said)
        self.assertIn("b: 1 of 1 claims hold", said)
        self.assertEqual(self.run_main({"a": bad}, "a")[0], 1)

    def test_a_command_that_fails(self):
        with mock.patch.object(lab, "ROOT", self.fake("echo '{}' >&2; exit 3")):
            code, said = self.run_main({"a": demo(lambda results: [], lambda lab: lab.train("small", "--ranks", "1"))}, "a", "--validate")
        self.assertEqual(code, 1)
        self.assertIn("a: does not hold: tools/strata train configs/quickstart.yaml $small --ranks 1 run.folder=small ends as it should\n"
                      "    expected: exit code 0\n    came: 3; its last words: {}", said)

    def test_a_command_that_does_not_end(self):
        slow = demo(lambda results: [], lambda lab: lab.strata("slow", "levels"))
        with mock.patch.object(lab, "ROOT", self.fake("exec sleep 60")), mock.patch.object(main, "MOST_SECONDS", 0.3):
            code, said = self.run_main({"a": slow, "b": slow}, "all", "--validate")
        self.assertEqual(code, 1)
        self.assertRegex(said, r"a: does not hold: tools/strata levels ends as it should\n    expected: its end within .*\n    came: none in \d+ s")
        self.assertRegex(said, r"b: does not hold: it is reached in time\n    expected: a start within 0.3 s of the command\n"
                               r"    came: \d+ s are over")

    def test_files_that_are_missing(self):
        code, said = self.run_main({"a": demo(lambda results: [findings.equal("steps", [], results.steps("nowhere"))])}, "a", "--validate")
        self.assertEqual(code, 1)
        self.assertIn("came: FileNotFoundError", said)

    def test_files_with_other_values(self):
        for check, words in ((lambda results: [findings.equal("share", 1, 1 / 0)], "ZeroDivisionError"),
                             (lambda results: [[].get("code")], "AttributeError")):
            code, said = self.run_main({"a": demo(check)}, "a", "--validate")
            self.assertEqual(code, 1)
            self.assertIn("came: " + words, said)

    def test_a_stop_ends_the_command_and_its_programs(self):
        """Here the command stops at once, and the program that it started ignores the request."""
        folder = self.fake("trap 'exit 0' TERM; (trap '' TERM; exec sleep 600) & echo $! > sleeper; wait")
        with mock.patch.object(lab, "ROOT", folder), mock.patch.object(main, "MOST_SECONDS", 5):
            self.run_main({"a": demo(lambda results: [], lambda lab: lab.strata("slow", "levels"))}, "a", "--keep", f"{folder}/kept")
        with open(f"{folder}/kept/a/sleeper", encoding="utf-8") as file:
            files = f"/proc/{file.read().strip()}/fd/1"  # a process that ended has none
        deadline = time.monotonic() + 60
        while os.path.exists(files):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_wrong_use(self):
        kept = os.environ["TEST_TMPDIR"]
        for arguments, words in ((["c"], "invalid choice: 'c'"), (["--validate"], "which demo?"), (["a", "--keep", kept], "is there already")):
            with self.subTest(arguments):
                code, said = self.run_main({"a": demo(lambda results: [])}, *arguments)
                self.assertEqual(code, 2)
                self.assertIn(words, said)

    def test_a_folder_that_cannot_be_made(self):
        done = subprocess.run([sys.executable, "-B", f"{DEMOS}/main.py", "levels", "--keep", "/proc/none"], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (4, 1), done.stderr)

    def test_every_file_is_in_the_list(self):
        demos = {os.path.basename(path)[:-3] for path in glob.glob(f"{DEMOS}/*.py")} - {"findings", "interactive", "lab", "main", "results"}
        self.assertEqual(set(main.DEMOS), demos)
        out = io.StringIO()
        with mock.patch.object(sys, "argv", ["demo"]), contextlib.redirect_stdout(out):
            self.assertEqual(main.main(), 0)
        self.assertEqual([line.split()[0] for line in out.getvalue().splitlines()[:len(demos)]], list(main.DEMOS))

    def test_the_page_has_every_demo_in_this_order(self):
        with open("docs/learn.md", encoding="utf-8") as file:
            page = file.read()
        places = [page.find(f"\ntools/strata demo {name}\n") for name in main.DEMOS]
        self.assertEqual(places, sorted(places))
        for name, place in zip(main.DEMOS, places):
            self.assertGreater(place, 0, name)
            self.assertIn(f"({main.demo_of(name).READ.removeprefix('docs/')})", page[place:].partition("\n## ")[0])

    def fake(self, script):
        """Returns a folder whose tools/strata is this script."""
        root = os.path.join(os.environ["TEST_TMPDIR"], self.id())
        os.makedirs(f"{root}/tools")
        with open(f"{root}/tools/strata", "w", encoding="utf-8") as file:
            file.write(f"#!/bin/bash\n{script}\n")
        os.chmod(f"{root}/tools/strata", 0o755)
        return root


if __name__ == "__main__":
    unittest.main()
