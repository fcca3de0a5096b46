# SPDX-License-Identifier: MIT
"""The disk becomes full while a run trains. The run continues without its checkpoint, and stops when three saves in
a row have failed. A disk that cannot be written at all is refused."""

import ctypes
import glob
import os
import subprocess
import unittest

import training_test

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
DISK_BYTES = 16 << 20
ROOM = 60 << 10  # enough for metrics.jsonl and events, not for a checkpoint of 175 kB


def enter_own_mounts():
    """Gives this process and its children mounts of their own, also without being root."""
    user, group = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
        raise unittest.SkipTest("this kernel gives no namespaces: " + os.strerror(ctypes.get_errno()))
    for name, text in ("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1"):
        with open("/proc/self/" + name, "w", encoding="ascii") as file:
            file.write(text)


def setUpModule():
    enter_own_mounts()


class DiskFullTest(unittest.TestCase):
    def setUp(self):
        self.runs = training_test.TrainingTest()  # data, configurations and the program are those of training_test
        self.runs.setUp()
        self.disk = os.path.join(self.runs.folder, "disk")
        os.mkdir(self.disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", self.disk], check=True)

    def tearDown(self):
        subprocess.run(["umount", self.disk], check=True)
        self.runs.tearDown()

    def fill(self):
        """Fills the disk up to ROOM. Returns the file whose removal frees the disk again."""
        left = os.statvfs(self.disk)
        filler = os.path.join(self.disk, "filler")
        with open(filler, "wb") as file:
            file.write(bytes(left.f_bavail * left.f_frsize - ROOM))
        return filler

    def checkpoints(self, run):
        return sorted(os.listdir(self.runs.path(run, "checkpoints")))

    def test_three_failed_saves_in_a_row_stop_the_run_and_lose_nothing(self):
        settings = ["steps=40", "checkpoint.every=5", "evaluation.every=0"]
        self.runs.train("whole", *settings)
        self.runs.train("disk/run", *settings, "run.stop_after=5")
        filler = self.fill()

        self.runs.train("disk/run", *settings, expect=4, fault="full disk")
        self.assertIn("resumed from step 5", self.runs.output)
        said = self.runs.output + self.runs.errors
        for step in (10, 15):
            self.assertEqual(said.count(f"checkpoint of step {step} not saved, older ones are as they were"), 1, said)
        self.assertIn("No space left on device", said)
        self.assertEqual(said.count("3 saves in a row failed"), 1, said)
        report = self.runs.error("disk/run")
        self.assertEqual(report["code"], 4)
        self.assertIn("the last, checkpoint of step 20", report["message"])
        self.assertEqual(self.checkpoints("disk/run"), ["latest", "step-00000005"])

        os.remove(filler)
        self.runs.train("disk/run", *settings)
        self.assertIn("resumed from step 5", self.runs.output)
        self.assertEqual(self.runs.losses("disk/run"), self.runs.losses("whole"))
        self.assertEqual(self.runs.hashes("disk/run"), self.runs.hashes("whole"))

    def test_a_failed_save_is_forgotten_when_the_next_one_succeeds(self):
        settings = ["steps=160", "checkpoint.every=40", "evaluation.every=0"]
        self.runs.train("whole", *settings)
        self.runs.train("disk/run", *settings, "run.stop_after=1")
        filler = self.fill()
        process = self.runs.start("disk/run", *settings)
        said = ""
        while "checkpoint of step 40 not saved" not in said:
            line = process.stderr.readline()
            self.assertTrue(line, said)
            said += line
        os.remove(filler)
        said += process.communicate(timeout=120)[1]
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(said.count("not saved"), 1, said)
        self.assertEqual(self.checkpoints("disk/run"), ["latest", "step-00000120", "step-00000160"])
        self.assertEqual(self.runs.hashes("disk/run")[160], self.runs.hashes("whole")[160])

    def test_a_disk_that_is_read_only_is_refused_at_the_start(self):
        config = self.runs.config("elsewhere", 16)
        on_disk = lambda run: ["steps=10", "run.folder=" + self.runs.path("disk/" + run)]
        self.runs.train("old", *on_disk("old"), "run.stop_after=5", config=config)
        before = {name: os.path.getmtime(name) for name in glob.glob(self.disk + "/**", recursive=True)}
        subprocess.run(["mount", "-o", "remount,ro", self.disk], check=True)
        for run in ("old", "new"):
            self.runs.train(run, *on_disk(run), config=config, expect=4, fault="read-only disk")
            self.assertIn("Read-only file system", self.runs.errors)
            self.assertNotIn("step:", self.runs.output)
        self.assertEqual({name: os.path.getmtime(name) for name in glob.glob(self.disk + "/**", recursive=True)}, before)
        subprocess.run(["mount", "-o", "remount,rw", self.disk], check=True)
        self.runs.train("old", *on_disk("old"), config=config)
        self.assertIn("resumed from step 5", self.runs.output)

    def test_the_last_checkpoint_has_to_be_there(self):
        self.runs.train("disk/run", "run.stop_after=5", "steps=10")
        self.fill()
        self.runs.train("disk/run", "steps=10", expect=4)
        self.assertIn("the last checkpoint could not be saved", self.runs.errors)


if __name__ == "__main__":
    unittest.main()
