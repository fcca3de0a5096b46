# SPDX-License-Identifier: MIT
"""Ctrl-C once and twice on a run of a small model: 75 with a checkpoint of the step, 130 without waiting for one, and the same
command goes on with the losses of an unbroken run."""
import os
import re
import signal
import time
import unittest

from archive import SMALL, Archive

STEPS = 150  # Ctrl-C must come before the last step


class InterruptedRunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = Archive(os.path.join(os.environ["TEST_TMPDIR"], "interrupted"))
        cls.archive.prepare_small_text()
        words, code = cls.archive.run(*cls.command("unbroken"))
        assert code == 0, words

    @staticmethod
    def command(name):
        return ["train", "configs/quickstart.yaml", *SMALL, f"steps={STEPS}", "checkpoint.every=10", f"run.folder=runs/{name}", "--ranks", "2"]

    def interrupt(self, name, words_before, **options):
        """Starts the run and sends a Ctrl-C when each of these words has been printed. Returns (output, exit code, seconds since the last one)."""
        process, words, waiting = self.archive.start(*self.command(name), **options), "", list(words_before)
        for line in process.stdout:
            words += line
            if waiting and re.search(waiting[0], line):
                waiting.pop(0)
                process.send_signal(signal.SIGINT)
                begin = time.monotonic()
        code = process.wait(timeout=60)
        self.assertEqual(waiting, [], words)
        return words, code, time.monotonic() - begin

    def last_step(self, name):
        return [record["step"] for record in self.archive.records(f"runs/{name}") if "loss" in record][-1]

    def expect_that_it_goes_on(self, name):
        """Returns the step from which the run has resumed."""
        words, code = self.archive.run(*self.command(name))
        self.assertEqual(code, 0, words)
        self.assertEqual(self.archive.losses(f"runs/{name}"), self.archive.losses("runs/unbroken"))
        return int(re.search(r"resumed from step (\d+)", words)[1])

    def expect_no_lost_step(self, name, **options):
        words, code, _ = self.interrupt(name, [r"^step: 13 "], **options)
        self.assertEqual(code, 75, words)
        self.assertIn("asked to stop: saving after the next step", words)
        done = self.last_step(name)
        self.assertLess(done, STEPS)
        self.assertEqual(self.expect_that_it_goes_on(name), done, "a step is lost")

    def test_once(self):
        self.expect_no_lost_step("once")

    def test_once_if_mpirun_forwards_no_signal(self):
        self.expect_no_lost_step("unforwarded", environment={"OMPI_MCA_ess_base_forward_signals": "none"})

    def test_twice(self):
        words, code, seconds = self.interrupt("twice", [r"^step: 25 ", "Ctrl-C once more stops without saving"])
        self.assertEqual(code, 130, words)
        self.assertLess(seconds, 30)
        self.assertGreaterEqual(self.expect_that_it_goes_on("twice"), 20)


if __name__ == "__main__":
    unittest.main()
