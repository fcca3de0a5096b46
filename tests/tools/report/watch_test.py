# SPDX-License-Identifier: MIT
"""report --watch writes the page of a run that goes on, and ends with the page that report writes."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from parsed_page import Page
from report_runs import REPORT, RESOLVED, ReportRuns, step_record

SECONDS = 60
EVERY = "0.1"


class WatchTest(ReportRuns):
    def setUp(self):
        super().setUp()
        self.run_path = self.run_folder("run", [step_record(1), step_record(2)], resolved_yaml=RESOLVED.replace("50", "6"))
        self.output = os.path.join(self.folder, "watched.html")
        self.lock = open(self.run_path + "/.lock", "w", encoding="utf-8")  # as a run holds it that trains
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.process = None

    def tearDown(self):
        self.lock.close()
        if self.process:
            self.process.kill()
            self.process.communicate()
        super().tearDown()

    def watch(self, *runs):
        self.process = subprocess.Popen([sys.executable, "-B", REPORT, *(runs or [self.run_path]), "--output", self.output, "--watch", "--every", EVERY],
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip

    def append(self, text):
        with open(self.run_path + "/metrics.jsonl", "a", encoding="utf-8") as file:
            file.write(text)

    def page(self):
        """Returns the page, which is whole at any time."""
        with open(self.output, encoding="utf-8", newline="") as file:
            page = Page(file.read())
        self.assertEqual(page.complaints, [])
        return page

    def wait_for_steps(self, *steps):
        limit, found = time.monotonic() + SECONDS, None
        while found != list(steps):
            self.assertLess(time.monotonic(), limit, f"the page has {found}")
            self.assertIsNone(self.process.poll())
            time.sleep(0.02)
            found = [row[0] for row in self.page().chart("loss")["rows"]] if os.path.exists(self.output) else None

    def check_last_page(self):
        """The command ends with 0, and its last page is that of a report."""
        said, _ = self.process.communicate(timeout=SECONDS)
        self.assertEqual((self.process.returncode, said), (0, f"the page is {self.output}, and follows the run; Ctrl-C ends that\n"))
        last = self.page()
        self.assertEqual(last.source, self.report(self.run_path).source)
        self.assertNotIn("reload", last.data)
        self.assertNotIn('http-equiv="refresh"', last.source)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [])

    def test_a_run_that_goes_on_to_its_end(self):
        self.watch()
        self.wait_for_steps(1, 2)
        page = self.page()
        self.assertEqual(page.data["reload"], float(EVERY))
        self.assertEqual(page.source.count('<noscript><meta http-equiv="refresh" content="1"></noscript>'), 1)
        line = json.dumps(step_record(3)) + "\n"
        self.append(line[:50])
        time.sleep(0.5)
        self.wait_for_steps(1, 2)
        self.assertNotIn("cut off", self.page().text())
        self.append(line[50:])
        self.wait_for_steps(1, 2, 3)
        self.append("".join(json.dumps(step_record(step)) + "\n" for step in (4, 5, 6)))
        self.wait_for_steps(1, 2, 3, 4, 5, 6)
        time.sleep(0.5)
        self.assertIsNone(self.process.poll(), "the run still has its lock")
        self.append('{"step": 6, "validation_loss": 1.5}\n')
        self.lock.close()
        self.check_last_page()
        self.assertEqual(self.page().chart("validation_loss")["rows"], [[6, 1.5]])

    def test_a_run_that_is_resumed(self):
        self.append("".join(json.dumps(step_record(step, loss=1.0)) + "\n" for step in (3, 4, 5)))
        self.watch()
        self.wait_for_steps(1, 2, 3, 4, 5)
        with open(self.run_path + "/metrics.jsonl", "r+", encoding="utf-8") as file:
            kept = file.readline() + file.readline()
            file.seek(len(kept))
            file.truncate()
            # Longer than before: only the bytes before the place of the last read say that the file was cut.
            file.write("".join(json.dumps(step_record(step, loss=0.5, milliseconds=81.5, note="x" * 500)) + "\n" for step in (3, 4)))
        self.wait_for_steps(1, 2, 3, 4)
        self.assertEqual(dict(self.page().chart("loss")["rows"]), {1: 2.5, 2: 2.5, 3: 0.5, 4: 0.5})
        self.process.send_signal(signal.SIGINT)
        self.check_last_page()

    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.watch()
            self.process.stdout.readline()  # of the first page
            self.append('{"step": 3, "loss"')
            self.process.send_signal(number)
            self.process.communicate(timeout=SECONDS)
            self.assertEqual(self.process.returncode, 0)
            self.assertEqual(self.page().source, self.report(self.run_path).source)
            self.assertIn("is cut off and is left out", self.page().text())

    def test_a_failure_is_new_too(self):
        self.watch()
        self.wait_for_steps(1, 2)
        with open(self.run_path + "/error.json", "w", encoding="utf-8") as file:
            file.write('{"code": 7, "message": "a rank hangs"}')
        limit = time.monotonic() + SECONDS
        while "a rank hangs" not in self.page().text():
            self.assertLess(time.monotonic(), limit)
        self.lock.close()
        time.sleep(0.5)
        self.assertIsNone(self.process.poll(), "the run may be started again")

    def test_only_new_bytes_are_read(self):
        count = 20_000
        self.append("".join(json.dumps(step_record(step)) + "\n" for step in range(3, count)))
        self.watch()
        self.process.stdout.readline()
        before = self.bytes_read()
        self.append(json.dumps(step_record(count)) + "\n")
        limit = time.monotonic() + SECONDS
        while self.page().data["last"] != count:
            self.assertLess(time.monotonic(), limit)
            time.sleep(0.1)
        self.assertLess(self.bytes_read() - before, os.path.getsize(self.run_path + "/metrics.jsonl") / 4)

    def bytes_read(self):
        with open(f"/proc/{self.process.pid}/io", encoding="utf-8") as file:
            return int(file.readline().split()[1])

    def test_wrong_use(self):
        for arguments, words in ((["--every", "5"], "--every is an option of --watch"), (["--watch", "--every", "0"], "expected 0.1 to 86400 seconds"),
                                 (["--watch", "--every", "soon"], "invalid seconds value")):  # fmt: skip
            self.assertEqual(self.start_report(self.run_path, *arguments), 2)
            self.assertIn(words, self.said)


if __name__ == "__main__":
    unittest.main()
