# SPDX-License-Identifier: MIT
"""A run fails or is killed while a checkpoint is being written to a slow disk: a save that all ranks can finish is committed,
a run that fails does not wait for the disk, and a save that was killed leaves nothing. The next save waits, and says so."""

import os
import shutil
import signal
import time
import unittest

from training_runs import DEVICE, TrainingRuns, rank_processes

SLOW_DISK = os.environ.get("STRATA_TEST_SLOW_DISK")  # for machines with GPUs, which may have no strace
FAULTS = {"STRATA_FAULTS": "1"}
TIMEOUT = 4 if DEVICE == "cpu" else 12  # NCCL connects the ranks within this time


def slow_disk_of_rank_1(seconds):
    """Returns the command under which the file of rank 1 needs this long to get to the disk."""
    if DEVICE == "cuda":
        return ["env", "LD_PRELOAD=" + SLOW_DISK, "STRATA_TEST_SLOW_RANK=1", "STRATA_TEST_SLOW_SECONDS=%d" % seconds]
    slow = "strace -f --seccomp-bpf -o /dev/null -e trace=fdatasync -e inject=fdatasync:delay_enter=%d" % (1e6 * seconds)
    return ["sh", "-c", 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec %s "$0" "$@"; fi; exec "$0" "$@"' % slow]


class SaveInFlightTest(TrainingRuns):
    @classmethod
    def setUpClass(cls):
        if DEVICE == "cpu" and shutil.which("strace") is None:
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

    def ask_during_the_first_save(self, run, *overrides):
        """Asks three times while the file of the first save is not on the disk. Returns the steps that were saved."""
        process = self.start(run, "evaluation.every=0", *overrides, under=slow_disk_of_rank_1(3))
        self.wait_for(process, run, lambda: any("save" in line for line in self.lines(run)))
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM):
            os.kill(rank_processes(process.pid)[0], number)
            time.sleep(0.5)
        self.assertEqual([name for name in self.checkpoints(run) if ".tmp-" not in name], [], "the save has ended before the last request")
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 75, output + errors)
        saves = [line["step"] for line in self.lines(run) if "save" in line]
        self.assertEqual([line["checkpoint"] for line in self.lines(run) if "checkpoint" in line], saves)
        self.assertEqual(self.checkpoints(run), ["latest", *("step-%08d" % step for step in saves)])
        self.assertEqual(saves[-1], len(self.losses(run)), "a step is lost")
        return saves

    def test_requests_during_the_save_of_the_last_step_start_no_other(self):
        self.assertEqual(self.ask_during_the_first_save("last", "run.stop_after=5"), [5])

    @unittest.skipIf(DEVICE == "cuda", "steps are so short there that the next save is due before the first has ended")
    def test_requests_during_a_save_start_one_of_the_steps_since(self):
        """The next save is due so much later that the requests come first, on a busy machine too."""
        saves = self.ask_during_the_first_save("asked", "steps=100000", "schedule={type: constant}", "checkpoint.every=200")
        self.assertEqual(len(saves), 2, saves)

    def test_a_gradient_that_is_not_finite_does_not_drop_the_save(self):
        self.train("nan", "fault={at: step 6 rank 1, kind: nan}", environment=FAULTS, under=slow_disk_of_rank_1(2), expect=5)
        self.assertEqual(self.checkpoints("nan"), ["latest", "step-00000005"])
        self.assertEqual((self.error("nan")["code"], self.error("nan")["step"]), (5, 6))

    def test_an_exception_ends_the_run_and_the_disk_is_not_waited_for(self):
        self.train("thrown", "fault={at: step 6 rank 1, kind: exception}", "run.timeout=%d" % TIMEOUT, environment=FAULTS,
                   under=slow_disk_of_rank_1(3 * TIMEOUT), expect=70)
        output, report = self.output + self.errors, self.error("thrown")
        self.assertEqual((report["code"], report["rank"], report["step"]), (70, 1, 6), output)
        self.assertIn("fault.kind", report["message"])

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
