# SPDX-License-Identifier: MIT
"""A rank that does not see the folder of the run, as on a host without the shared disk, is refused before the first step: with 4,
and with rank, host and folder. Another disk is mounted over the folder of rank 1 only."""

import os
import shutil
import socket
import subprocess
import unittest

from training_runs import TrainingRuns

OWN_DISK = 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec unshare -m sh -c \'mount -t tmpfs none %s && exec "$0" "$@"\' "$0" "$@"; fi; exec "$0" "$@"'


def can_mount():
    trial = 'mount -t tmpfs none "$0"'
    return shutil.which("unshare") is not None and subprocess.run(["unshare", "-m", "sh", "-c", trial, "/mnt"], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(can_mount(), "needs the rights to make a mount namespace and to mount")
class UnsharedFolderTest(TrainingRuns):
    def refused(self, run):
        self.train(run, under=["sh", "-c", OWN_DISK % self.path(run)], expect=4, fault="folder of another disk")
        said = r"run\.folder %s: rank 1 on host %s does not find the file that rank 0 on host %s has just written there; expected one folder that all hosts share"
        self.assertRegex(self.errors, said % (self.path(run), socket.gethostname(), socket.gethostname()))
        self.assertEqual(self.error(run)["code"], 4)
        self.assertEqual([name for name in os.listdir(self.path(run)) if name.startswith(".shared")], [])

    def test_a_new_folder(self):
        os.mkdir(self.path("new"))
        self.refused("new")
        self.assertFalse(os.path.exists(self.path("new", "metrics.jsonl")), "a rank has trained")
        self.train("new")

    def test_the_folder_of_a_run_that_has_saved(self):
        self.train("old", "run.stop_after=5")
        self.refused("old")
        self.train("old")
        self.assertIn("resumed from step 5", self.output)


if __name__ == "__main__":
    unittest.main()
