# SPDX-License-Identifier: MIT
"""Files of a run are missing or change, or system calls on them fail or are late by strace. No checkpoint is lost, and the
run says what happened."""

import os
import shutil
import unittest

from training_runs import TrainingRuns, write_tokens

STEPS = 400
LONG = ["schedule={type: constant}", "checkpoint.every=100", "evaluation.every=100"]


class StorageFaultsTest(TrainingRuns):
    @classmethod
    def setUpClass(cls):
        if shutil.which("strace") is None:
            raise RuntimeError("this test needs strace: apt-get install strace")

    def disturbed(self, path, injection):
        """Returns the command that disturbs the calls of a rank on this path. It counts the calls of each thread."""
        return [*self.traced(injection.partition(":")[0]), "-P", os.path.realpath(path), "-e", "inject=" + injection]

    def traced(self, calls):
        """Returns the command that writes these calls to the file `trace`. With --seccomp-bpf all others run at full speed."""
        return ["strace", "-f", "-y", "--seccomp-bpf", "-o", self.path("trace"), "-e", "trace=" + calls]

    def checkpoint_files(self, run):
        """Returns the bytes of all files below the folder of checkpoints, and the targets of symbolic links."""
        found = {}
        for folder, folders, files in os.walk(self.path(run, "checkpoints")):
            for path in (os.path.join(folder, name) for name in folders + files):
                if os.path.islink(path):
                    found[path] = os.readlink(path)
                elif os.path.isfile(path):
                    with open(path, "rb") as file:
                        found[path] = file.read()
        return found

    def test_a_checkpoint_that_could_not_be_read_is_not_given_up(self):
        self.train("whole", "run.stop_after=15", device="cpu")
        self.train("run", "run.stop_after=10", device="cpu")
        before = self.checkpoint_files("run")
        self.assertEqual(len(before), 7)  # two checkpoints of three files, and `latest`
        folder = self.path("run", "checkpoints/step-00000010")
        checkpoints, manifest, other = os.path.dirname(folder), folder + "/manifest.json", folder + "/rank-00001.safetensors"
        unread = "checkpoint of step 10 could not be read, which does not show that it is damaged: "
        for path, injection, said in (
                (manifest, "openat:error=EIO", f"{unread}open for reading failed: {manifest}: Input/output error"),
                (manifest, "openat:error=ESTALE", f"{unread}open for reading failed: {manifest}: Stale file handle"),
                (manifest, "openat:error=EMFILE", f"{unread}open for reading failed: {manifest}: Too many open files"),
                (manifest, "newfstatat:error=EIO", f"{unread}stat failed: {manifest}: Input/output error"),
                (manifest, "pread64:error=EIO", f"{unread}read failed: {manifest}: Input/output error"),
                (manifest, "pread64:error=ESTALE", f"{unread}read failed: {manifest}: Stale file handle"),
                (other, "openat:error=EIO", f"{unread}open for reading failed: {other}: Input/output error"),
                (other, "openat:error=ESTALE", f"{unread}open for reading failed: {other}: Stale file handle"),
                (other, "openat:error=EMFILE", f"{unread}open for reading failed: {other}: Too many open files"),
                (other, "pread64:error=EIO:when=1", f"{unread}read failed: {other}: Input/output error"),
                (other, "pread64:error=ESTALE:when=1", f"{unread}read failed: {other}: Stale file handle"),
                (other, "pread64:error=EIO:when=2", f"start: read failed: {other}: Input/output error"),  # of the thread that loads
                (other, "pread64:error=ESTALE:when=2", f"start: read failed: {other}: Stale file handle"),
                (folder, "openat:error=EMFILE", f"Too many open files [{folder}]"),
                (folder, "getdents64:error=EIO", f"Input/output error [{folder}]"),
                (checkpoints, "openat:error=EIO:when=2", checkpoints + ": cannot be listed: Input/output error")):  # the first is a look at run.folder
            with self.subTest(path=os.path.basename(path), injection=injection):
                ranks = 2 if path == other else 1  # rank 0 reads what is not a shard
                self.train("run", "run.stop_after=15", ranks=ranks, expect=4, device="cpu", under=self.disturbed(path, injection),
                           fault="%s of %s" % (injection.partition(":when=")[0], os.path.basename(path)))
                self.assertIn(said, self.errors)
                self.assertEqual(self.checkpoint_files("run"), before)
        self.train("run", "run.stop_after=15", device="cpu")
        self.assertIn("resumed from step 10", self.output)
        self.assertEqual(self.losses("run"), self.losses("whole"))
        self.assertEqual(self.hashes("run"), self.hashes("whole"))

    def test_a_checkpoint_that_must_be_there(self):
        self.train("new", "checkpoint.resume=require", expect=4, device="cpu", ranks=1, fault="no checkpoint where one must be")
        self.assertIn("new/checkpoints: no checkpoint, and checkpoint.resume is require", self.errors)

    def test_the_names_of_new_folders_are_put_on_the_disk(self):
        run = self.path("new/run")
        self.train("first", "checkpoint.resume=require", "run.folder=" + run, expect=4, device="cpu", ranks=1, under=self.traced("fsync"))
        with open(self.path("trace"), encoding="utf-8") as file:
            trace = file.read()
        for folder in self.folder, self.path("new"):
            self.assertRegex(trace, r"fsync\(\d+<%s>\W" % os.path.realpath(folder))

    def test_a_slow_checkpoint_is_no_hang(self):
        self.train("run", "run.stop_after=5", device="cpu", ranks=1)
        # Rank 0 verifies the only file while rank 1 waits. Then both read it.
        slow = self.disturbed(self.path("run", "checkpoints/step-00000005/rank-00000.safetensors"), "pread64:delay_enter=7000000:when=1")
        self.train("run", "run.stop_after=6", "run.timeout=5", device="cpu", under=slow)
        self.assertIn("resumed from step 5", self.output)

    def test_a_write_of_no_bytes_loses_one_record(self):
        self.train("run", "steps=5", device="cpu", ranks=1, under=self.disturbed(self.path("run", "metrics.jsonl"), "pwrite64:retval=0:when=2"))
        self.assertEqual((self.output + self.errors).count("metrics.jsonl: write failed: No space left on device"), 1)
        # The first record is the hash of the weights.
        self.assertEqual([line["step"] for line in self.lines("run") if "loss" in line], [2, 3, 4, 5])


class ChangedFilesTest(TrainingRuns):
    """A token file is open from the start of a run to its end, and its content counts as that of the start."""

    def other_tokens(self, path, count):
        write_tokens(path, [(i * 5 + 3) % 37 for i in range(count)])

    def train_while(self, run, change):
        process = self.start(run, "steps=%d" % STEPS, *LONG, device="cpu")
        self.wait_for_a_step(process, run)
        change()
        self.assertLess(len(self.losses(run)), STEPS // 2, "the run was too fast for this test")
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, output + errors)
        self.assertEqual(len(self.losses(run)), STEPS)
        # The next start does not take the new text for the old one.
        self.train(run, "steps=%d" % (STEPS + 10), *LONG, expect=2, device="cpu")
        self.assertRegex(self.errors, r"was made by another configuration:\n  the data: was [0-9a-f ]+, now [0-9a-f ]+\n")
        self.assertEqual(len(self.losses(run)), STEPS)

    def test_files_that_are_replaced_are_read_on(self):
        self.train("whole", "steps=%d" % STEPS, *LONG, device="cpu")

        def replace():
            for name, count in (("train.bin", 6000), ("validation.bin", 500)):
                self.other_tokens(self.data + "/new", count)
                os.replace(self.data + "/new", self.data + "/" + name)

        self.train_while("replaced", replace)
        evaluations = [[line["validation_loss"] for line in self.lines(run) if "validation_loss" in line] for run in ("whole", "replaced")]
        self.assertEqual(len(evaluations[0]), 4)
        self.assertEqual(evaluations[0], evaluations[1])
        self.assertEqual((self.losses("replaced"), self.hashes("replaced")), (self.losses("whole"), self.hashes("whole")))

    def test_a_file_that_is_rewritten_in_place_is_noticed_by_the_next_start(self):
        def rewrite():
            with open(self.data + "/train.bin", "rb") as file:
                size = len(file.read())
            self.other_tokens(self.data + "/new", 6000)
            with open(self.data + "/new", "rb") as new, open(self.data + "/train.bin", "r+b") as file:
                file.write(new.read())
            self.assertEqual(os.path.getsize(self.data + "/train.bin"), size)

        self.train_while("rewritten", rewrite)


if __name__ == "__main__":
    unittest.main()
