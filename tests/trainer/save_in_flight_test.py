# SPDX-License-Identifier: MIT
"""A run fails or is killed while a checkpoint is being written to a slow disk: a save that all ranks can finish is committed,
the first cause is reported before the disk is waited for, and a save that was killed leaves nothing. The next save waits, and says so."""

import os
import shutil
import signal
import unittest

from training_runs import TrainingRuns, rank_processes

FAULTS = {"STRATA_FAULTS": "1"}


def slow_disk_of_rank_1(seconds):
    """Returns the command under which the file of rank 1 needs this long to get to the disk."""
    slow = "strace -f --seccomp-bpf -o /dev/null -e trace=fdatasync -e inject=fdatasync:delay_enter=%d" % (1e6 * seconds)
    return ["sh", "-c", 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec %s "$0" "$@"; fi; exec "$0" "$@"' % slow]


class SaveInFlightTest(TrainingRuns):
    @classmethod
    def setUpClass(cls):
        if shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")

    def checkpoints(self, run):
        return sorted(os.listdir(self.path(run, "checkpoints")))

    def test_the_next_save_waits_and_says_so(self):
        self.train("waits", "steps=10", "run.stop_after=10", "evaluation.every=0", under=slow_disk_of_rank_1(4))
        said = "checkpoint of step 10: training waits, because the one before is not on the disk yet"
        self.assertEqual(self.output.count("training waits"), 1, self.output)
        self.assertIn(said, self.output)
        self.assertRegex(self.output, r"(?m)^checkpoint of step 10: the step waited \d+ ms for the save before and \d+ ms for a copy$")
        self.assertEqual(self.checkpoints("waits"), ["latest", "step-00000005", "step-00000010"])
        first, second = (line["save"] for line in self.lines("waits") if "save" in line)
        self.assertEqual(first["waited_milliseconds"], 0)
        self.assertGreater(second["waited_milliseconds"], 0)
        self.assertGreater(second["milliseconds"], second["waited_milliseconds"])

    def test_steps_go_on_while_the_disk_is_slow(self):
        self.train("slow", "steps=200", "checkpoint.every=100", "evaluation.every=0", under=slow_disk_of_rank_1(3))
        saved = next(line for line in self.lines("slow") if "save" in line and line["step"] == 100)
        written = next(line for line in self.lines("slow") if line.get("checkpoint") == 100)
        self.assertGreater(written["step"], 120)  # the step in which the checkpoint was found on the disk
        self.assertLess(saved["save"]["milliseconds"], 1000)  # the disk takes 3 s

    def test_a_gradient_that_is_not_finite_does_not_drop_the_save(self):
        self.train("nan", "fault={at: step 6 rank 1, do: nan}", environment=FAULTS, under=slow_disk_of_rank_1(2), expect=5)
        self.assertEqual(self.checkpoints("nan"), ["latest", "step-00000005"])
        self.assertEqual((self.error("nan")["code"], self.error("nan")["step"]), (5, 6))

    def test_an_exception_is_reported_before_the_disk_is_waited_for(self):
        run = self.start("thrown", "fault={at: step 6 rank 1, do: exception}", "run.timeout=4", environment=FAULTS, under=slow_disk_of_rank_1(12))
        output = "".join(run.communicate(timeout=120))
        self.assertNotEqual(run.returncode, 0, output)
        report = self.error("thrown")
        self.assertEqual((report["code"], report["rank"], report["step"]), (70, 1, 6), output)
        self.assertIn("fault.do", report["message"])

    def test_the_end_of_mpirun_and_of_all_ranks_by_sigkill_loses_only_the_save(self):
        self.train("whole")
        run = self.start("killed", under=slow_disk_of_rank_1(4))
        saving = self.path("killed", "checkpoints")
        self.wait_for(run, "killed", lambda: any(name.startswith("step-00000010.tmp-") for name in os.listdir(saving)))
        for process in [run.pid, *rank_processes(run.pid).values()]:
            os.kill(process, signal.SIGKILL)
        run.communicate(timeout=60)
        self.assertRegex(" ".join(self.checkpoints("killed")), r"^latest step-00000005 step-00000010\.tmp-\w+$")
        self.train("killed")
        self.assertIn("resumed from step 5", self.output)
        self.assertEqual(self.losses("killed"), self.losses("whole"))
        self.assertEqual(self.hashes("killed"), self.hashes("whole"))
        self.assertEqual(self.checkpoints("killed"), ["latest", "step-00000015", "step-00000020"])


if __name__ == "__main__":
    unittest.main()
