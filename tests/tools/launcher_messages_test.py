# SPDX-License-Identifier: MIT
"""Checks which errors of ranks and of mpirun the launcher forwards, with a script instead of mpirun."""
import os
import time
import unittest

from fake_archive import FakeArchive, wait_for_words

TMP = os.environ["TEST_TMPDIR"]
DASHES = "-" * 74


class LauncherMessagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = FakeArchive(os.path.join(TMP, "messages"))

    def start(self, script):
        """Starts a run with `script` as mpirun."""
        self.archive.write("fake/mpirun", f"#!/bin/sh\n{script}\n", 0o755)
        path = self.archive.path("fake") + ":" + os.environ["PATH"]
        return self.archive.start("train", self.archive.config(), environment={"PATH": path})

    def errors(self, *lines):
        """Returns the errors of a run in which mpirun and the ranks print `lines`."""
        text = "\n".join(lines)
        process = self.start(f"cat >&2 <<'END'\n{text}\nEND\nexit 5")
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 5, errors)
        return errors.splitlines()

    def test_a_row_of_dashes_does_not_withhold_later_errors(self):
        begin = time.monotonic()
        process = self.start(f"echo {DASHES} >&2; seq 40 >&2; echo the cause >&2; exec sleep 60")
        try:
            wait_for_words(process, "the cause")
            self.assertLess(time.monotonic() - begin, 45, "the error came only when mpirun had ended")
        finally:
            process.kill()  # its guard ends the script
            process.communicate(timeout=60)

    def test_every_line_of_ranks_is_forwarded_once(self):
        for lines in ([DASHES, *map(str, range(29)), DASHES, "x"], [DASHES, *map(str, range(100)), DASHES, "x"], [DASHES, "x"]):
            self.assertEqual(self.errors(*lines), lines)

    def test_words_of_mpirun_about_itself_are_left_out(self):
        noise = ["mpirun: Forwarding signal 10 to job", "[vm:123] 1 more process has sent help message help-mpi-api.txt / mpi-abort",
                 '[vm:123] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages']
        words = ["strata: mpirun: Forwarding signal 10 to job is noise", "[vm:123] the network is down"]
        self.assertEqual(self.errors(words[0], *noise, DASHES, "MPI_ABORT was invoked on rank 1", DASHES, words[1]), words)


if __name__ == "__main__":
    unittest.main()
