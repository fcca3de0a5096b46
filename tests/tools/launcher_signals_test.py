# SPDX-License-Identifier: MIT
"""Checks what the launcher does with signals and killed ranks, with the real mpirun."""
import os
import signal
import sys
import time
import unittest

from fake_archive import FakeArchive, control_c, wait_for_words

sys.path.insert(0, "tests/trainer")
from training_runs import expect_fault  # noqa: E402

TMP = os.environ["TEST_TMPDIR"]


class LauncherSignalsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = FakeArchive(os.path.join(TMP, "archive"))

    def started(self, environment=None, **config):
        """Starts a run of two ranks and waits until both have begun."""
        process = self.archive.start("train", self.archive.config(**config), environment=environment)
        for rank in range(2):
            self.archive.wait_for(f"run/started.{rank}")
        return process

    def test_signals_become_a_clean_stop(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process = self.started(seconds=20)
            process.send_signal(number)
            output, errors = process.communicate(timeout=20)
            expect_fault(self, number.name, 75, process.returncode, errors)
            self.assertIn("rank 0 saves", output)
            self.assertIn("rank 1 saves", output)
            self.assertNotIn("Primary job", errors)
            self.assertIn("the same command goes on", errors)
            self.assertFalse(os.path.exists(self.archive.path("run/error.json")))

    def test_a_signal_after_the_last_rank_changes_nothing(self):
        # mpirun has ended, and the launcher waits a second for a process that still has its standard error.
        self.archive.write("late/mpirun", "#!/bin/bash\nsleep 2 &\ntouch ended\n", 0o755)
        os.makedirs(self.archive.path("late/temporary"), exist_ok=True)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            variables = {"PATH": self.archive.path("late") + ":" + os.environ["PATH"], "TMPDIR": self.archive.path("late/temporary")}
            process = self.archive.start("train", self.archive.config(), environment=variables)
            self.archive.wait_for("ended")
            time.sleep(0.3)
            process.send_signal(number)
            errors = process.communicate(timeout=20)[1]
            self.assertEqual(process.returncode, 0, errors)
            self.assertEqual(os.listdir(self.archive.path("late/temporary")), [])
            os.unlink(self.archive.path("ended"))

    def test_control_c_of_a_terminal_does_not_reach_mpirun(self):
        process = self.started(seconds=20)
        control_c(process)
        output, errors = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 75, errors)
        self.assertIn("rank 1 saves", output)

    def test_second_control_c_ends_at_once(self):
        config = self.archive.config(seconds=60)
        # These ranks ignore the request to stop.
        script = self.archive.read("bin/train")
        self.archive.write("bin/train", script.replace("exit 75' USR1", "' USR1"), 0o755)
        try:
            process = self.archive.start("train", config)
            for rank in range(2):
                self.archive.wait_for(f"run/started.{rank}")
            control_c(process)
            wait_for_words(process, "Ctrl-C once more stops without saving")
            self.assertIsNone(process.poll())
            begin = time.monotonic()
            control_c(process)
            process.communicate(timeout=50)
        finally:
            self.archive.write("bin/train", script, 0o755)
        expect_fault(self, "Ctrl-C twice", 130, process.returncode)
        self.assertLess(time.monotonic() - begin, 30)  # less than the 60 s that the ranks would take

    def test_more_sigterms_change_nothing(self):
        script = self.archive.read("bin/train")
        self.archive.write("bin/train", script.replace("rank $rank saves\";", "rank $rank saves\"; until [ -e $folder/saved ]; do sleep 0.05; done;"), 0o755)
        try:
            process = self.started(seconds=20)
            process.terminate()
            wait_for_words(process, "asked to stop")
            for _ in range(20):
                process.terminate()
            self.archive.write("run/saved", "")
            output, _ = process.communicate(timeout=20)
        finally:
            self.archive.write("bin/train", script, 0o755)
        self.assertEqual(process.returncode, 75)
        self.assertEqual(output.count("saves"), 2)

    def test_killed_rank_is_reported(self):
        for act, code, word in (("die", 137, "SIGKILL"), ("crash", 139, "SIGSEGV")):
            process = self.started(seconds=20, act=act)
            begin = time.monotonic()
            _, errors = process.communicate(timeout=20)
            self.assertEqual(process.returncode, code, errors)
            self.assertLess(time.monotonic() - begin, 5)
            report = self.archive.report()
            self.assertEqual((report["code"], report["rank"]), (code, 1))
            self.assertIn(word, report["message"])
            self.assertIn("rank 1 was killed", errors)

    def test_ranks_end_with_a_launcher_that_was_killed(self):
        os.makedirs(temporary := self.archive.path("temporary"))
        for kill in (lambda process: process.kill(), lambda process: os.killpg(process.pid, signal.SIGKILL)):
            process = self.started(seconds=60, environment={"TMPDIR": temporary})
            kill(process)
            begin = time.monotonic()
            process.communicate(timeout=50)  # the ranks hold the other ends of its pipes too
            self.assertLess(time.monotonic() - begin, 10)
            while left := [name for name in os.listdir(temporary) if name.startswith("tmp.")]:
                self.assertLess(time.monotonic() - begin, 30, f"{left} are left in the folder of temporary files")
                time.sleep(0.05)

    def test_rank_that_leaves_without_a_word_is_reported(self):
        # Open MPI prints and does this when a rank that has called MPI_Init calls _exit(0).
        line = "-" * 74
        self.archive.write("fake/mpirun", f"#!/bin/sh\nmkdir -p {self.archive.path('run')}\ncat >&2 <<END\n{line}\nmpirun has exited due to "
                           f"process rank 1 with PID 0 on\nnode vm exiting improperly.\n{line}\nEND\nexit 1\n", 0o755)
        path = self.archive.path("fake") + ":" + os.environ["PATH"]
        code, _, errors = self.archive.run("train", self.archive.config(), environment={"PATH": path})
        self.assertEqual(code, 7, errors)
        self.assertIn("rank 1 left the run without a word", errors)
        self.assertNotIn("improperly", errors)
        self.assertEqual((self.archive.report()["code"], self.archive.report()["rank"]), (7, 1))

    def test_report_of_the_rank_is_kept(self):
        code, _, errors = self.archive.run("train", self.archive.config(seconds=20, act="fail"))
        self.assertEqual(code, 5, errors)
        self.assertEqual(self.archive.report(), {"code": 5})


if __name__ == "__main__":
    unittest.main()
