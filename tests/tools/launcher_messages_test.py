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

    def start(self, script, prepare=lambda: None):
        """Starts a run with `script` as mpirun, in a new folder that `prepare` fills."""
        self.archive.write("fake/mpirun", f"#!/bin/sh\n{script}\n", 0o755)
        path = self.archive.path("fake") + ":" + os.environ["PATH"]
        config = self.archive.config()
        os.makedirs(self.archive.path("run"))
        prepare()
        return self.archive.start("train", config, environment={"PATH": path})

    def errors(self, *lines, code=5):
        """Returns the errors of a run in which mpirun and the ranks print `lines`, and mpirun exits with `code`."""
        text = "\n".join(lines)
        process = self.start(f"cat >&2 <<'END'\n{text}\nEND\nexit {code}")
        errors = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, code, errors)
        return errors.splitlines()

    def test_a_row_of_dashes_does_not_withhold_later_errors(self):
        for before in ("seq 40 >&2;", "seq 3 >&2;"):
            begin = time.monotonic()
            process = self.start(f"echo {DASHES} >&2; {before} printf 'the ca' >&2; sleep 6; echo use >&2; exec sleep 60")
            try:
                wait_for_words(process, "the cause")
                self.assertLess(time.monotonic() - begin, 45, "the error came only when mpirun had ended")
            finally:
                process.kill()  # its guard ends the script
                process.communicate(timeout=60)

    def test_every_line_of_ranks_is_forwarded_once(self):
        for lines in ([DASHES, *map(str, range(29)), DASHES, "x"], [DASHES, *map(str, range(100)), DASHES, "x"], [DASHES, "x"],
                      [DASHES, "strata: mpirun noticed that process rank 7 with PID 1 on node b exited on signal 9 (Killed).", DASHES]):
            self.assertEqual(self.errors(*lines), lines)

    def test_words_of_mpirun_about_itself_are_left_out(self):
        noise = ["mpirun: Forwarding signal 10 to job", "[vm:123] 1 more process has sent help message help-mpi-api.txt / mpi-abort",
                 '[vm:123] Set MCA parameter "orte_base_help_aggregate" to 0 to see all help / error messages']
        words = ["strata: mpirun: Forwarding signal 10 to job is noise", "[vm:123] the network is down"]
        self.assertEqual(self.errors(words[0], *noise, DASHES, "MPI_ABORT was invoked on rank 1", DASHES, words[1]), words)

    def test_codes_of_mpirun_are_left_out_after_the_end_of_ranks(self):
        message, code = [DASHES, "MPI_ABORT was invoked on rank 1", DASHES], "[vm:123] [[9,0],0] ORTE_ERROR_LOG: Not found in file a.c at line 9"
        self.assertEqual(self.errors(code, "x", *message, code, "y"), [code, "x", "y"])

    def test_a_message_of_mpirun_is_known_after_rows_of_dashes(self):
        message = [DASHES, "mpirun noticed that process rank 3 with PID 9 on node b exited on signal 9 (Killed).", DASHES]
        for lines in ([DASHES], [DASHES, DASHES], [DASHES, "x"], [DASHES, *map(str, range(40)), DASHES, "x"]):
            errors = self.errors(*lines, *message, code=137)
            self.assertEqual(errors[:-1], lines)
            self.assertIn("rank 3 was killed on b by SIGKILL", errors[-1])

    def test_a_lost_host_is_a_failure_of_communication(self):
        lost = [DASHES, "ORTE has lost communication with a remote daemon.", "", "  HNP daemon   : [[12641,0],0] on node a",
                "  Remote daemon: [[12641,0],1] on node b.example", "", "This is usually due to either a failure of the TCP network", DASHES]
        later = [DASHES, "mpirun noticed that process rank 3 with PID 9 on node a exited on signal 9 (Killed).", DASHES]
        for lines in (lost, [*lost, *later]):
            text = "\n".join(lines)
            process = self.start(f"cat >&2 <<'END'\n{text}\nEND\nexit 205")
            errors = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 7, errors)
            self.assertEqual(errors, "strata: the connection to host b.example was lost; the same command goes on from the last checkpoint\n")
            self.assertEqual((self.archive.report()["code"], self.archive.report()["rank"]), (7, None))

    def test_a_code_of_mpirun_is_that_of_communication_only_if_the_run_had_begun(self):
        for begun, code in (("touch run/resolved.yaml; ", 7), ("", 213)):
            process = self.start(f"{begun}echo words >&2; exit 213")
            errors = process.communicate(timeout=60)[1]
            self.assertEqual((process.returncode, errors), (code, "words\n"))

    def test_the_report_follows_no_link_and_changes_no_code(self):
        message = "\n".join([DASHES, "mpirun noticed that process rank 3 with PID 9 on node b exited on signal 9 (Killed).", DASHES])
        precious, temporary = self.archive.write("precious", "words"), self.archive.path("run/error.json.tmp")
        for place, wanted in ((lambda: os.symlink(precious, temporary), True), (lambda: os.mkdir(temporary), False)):
            process = self.start(f"cat >&2 <<'END'\n{message}\nEND\nexit 137", prepare=place)
            errors = process.communicate(timeout=60)[1]
            self.assertEqual(process.returncode, 137, errors)
            self.assertEqual(self.archive.read("precious"), "words")
            self.assertEqual(os.path.isfile(self.archive.path("run/error.json")), wanted)
            self.assertEqual("error.json could not be written" in errors, not wanted)
            if wanted:
                self.assertEqual((self.archive.report()["code"], self.archive.report()["rank"]), (137, 3))

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "there is a GPU")
    def test_gpu_test_says_that_there_is_no_gpu(self):
        code, _, errors = self.archive.run("gpu-test")
        self.assertEqual(code, 2)
        self.assertIn("there is no GPU here", errors)


if __name__ == "__main__":
    unittest.main()
