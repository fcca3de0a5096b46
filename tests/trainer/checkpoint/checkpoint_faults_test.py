# SPDX-License-Identifier: MIT
"""Kills a save, and lets its system calls fail, at every call. Then the older or the new checkpoint loads, never a
mixture."""

import os
import re
import shutil
import tempfile
import unittest

from saving_process import SavingProcess

ALL = "STRATA_TEST_ALL" in os.environ

SHORT_WRITES = os.path.abspath("tests/trainer/checkpoint/libshort_writes.so")

# All calls by which a save changes the disk or may learn that it could not. strace counts each kind of call and each
# thread separately. So the n-th calls of every kind, from both starts, are all calls.
CALLS = "openat write fdatasync fsync close rename mkdir symlink unlink unlinkat rmdir".split()


class CheckpointFaultsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = SavingProcess()
        cls.template = tempfile.mkdtemp()
        for step in (10, 20):
            assert cls.process.ask(f"save {cls.template}/checkpoints {step} 2") == "committed"

    @classmethod
    def tearDownClass(cls):
        cls.process.close()
        shutil.rmtree(cls.template)

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.checkpoints = self.folder + "/checkpoints"

    def tearDown(self):
        shutil.rmtree(self.folder)

    def disturbed(self, command, injection):
        return self.process.traced(command, CALLS, self.folder + "/trace", "-e", "inject=" + injection)

    def copy_template(self):
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        shutil.copytree(self.template + "/checkpoints", self.checkpoints, symlinks=True)

    def disturb(self, when, injection, ranks=2):
        """Saves step 30 next to steps 10 and 20. Returns how it ended, and if there was such a call at all."""
        self.copy_template()
        end = self.disturbed(f"disturb {self.checkpoints} 30 {ranks} {when}", injection)[-1]
        with open(self.folder + "/trace") as file:
            return end, end.startswith("signal") or "(INJECTED)" in file.read()

    def at_every_call(self, injection, expect, ranks=2):
        """Disturbs one call after the other. `expect` checks how each of them ended."""
        for when in ("start", "commit"):
            for call in CALLS:
                for n in range(1, 100):
                    end, disturbed = self.disturb(when, f"{call}:{injection}:when={n}", ranks)
                    if not disturbed:
                        self.assertEqual((end, self.newest()), ("exit 0", "step 30"))
                        break
                    with self.subTest(injection=injection, ranks=ranks, when=when, call=call, n=n):
                        expect(end)

    def leftovers(self):
        return [name for name in os.listdir(self.checkpoints) if ".tmp" in name]

    def newest(self):
        return self.process.ask("check " + self.checkpoints)

    def test_killed_at_every_call(self):
        found = {"step 20": 0, "step 30": 0}

        def expect(end):
            self.assertEqual(end, "signal 9")
            newest = self.newest()
            self.assertIn(newest, found)
            found[newest] += 1
            self.assertEqual(self.process.ask("clean " + self.checkpoints), "clean")
            self.assertEqual(self.leftovers(), [])
            self.assertEqual(self.newest(), newest)

        for ranks in (1, 2, 3) if ALL else (2,):
            self.at_every_call("signal=KILL", expect, ranks)
        print("killed at", sum(found.values()), "calls:", found)
        self.assertGreater(min(found.values()), 10)

    def test_every_call_fails_once(self):
        ends = {"exit 0": 0, "exit 1": 0}

        def expect(end):
            self.assertIn(end, ends)
            ends[end] += 1
            # The clean-up after the commit may fail; the checkpoint exists all the same.
            self.assertEqual(self.newest(), "step 30" if end == "exit 0" else "step 20")
            if end == "exit 1":
                self.assertEqual(self.leftovers(), [])

        for error in ("ENOSPC", "EIO", "EDQUOT", "EFBIG", "EROFS"):
            self.at_every_call("error=" + error, expect)
        print("failed calls:", ends)
        self.assertGreater(min(ends.values()), 20)

    def test_interrupted_writes_go_on(self):
        for when in ("start", "commit"):
            self.assertEqual(self.disturb(when, "write:error=EINTR:when=1"), ("exit 0", True))
            self.assertEqual(self.newest(), "step 30")

    def save_alone(self, process, **limit):
        """One rank saves step 30. Returns how it ended, and (bytes asked, result) of each write."""
        self.copy_template()
        end = process.traced(f"disturb {self.checkpoints} 30 1 start", ["write"], self.folder + "/trace", **limit)[-1]
        with open(self.folder + "/trace") as file:
            return end, [(int(asked), result) for asked, result in re.findall(r"write\(.*, (\d+)\) += (\d+|-1 \w+)", file.read())]

    def test_short_writes_go_on(self):
        """The kernel may write fewer bytes than it was asked to, each time."""
        for most in (1, 7, 1000):
            process = SavingProcess(LD_PRELOAD=SHORT_WRITES, STRATA_TEST_WRITE_BYTES=str(most))
            self.addCleanup(process.close)
            end, writes = self.save_alone(process)
            self.assertEqual((end, self.newest()), ("exit 0", "step 30"))
            self.assertEqual(max(asked for asked, _ in writes), most)
            self.assertGreater(len(writes), 3)

    def test_a_file_may_be_too_large_at_any_size(self):
        """At the limit a write is short, and the next one fails. A part of a file is never taken for all of it."""
        sizes = [asked for asked, _ in self.save_alone(self.process)[1]]  # one write for each file
        shortened = 0
        for most in [0, 1, *range(100, max(sizes), 400), max(sizes) - 1]:
            with self.subTest(most=most):
                end, writes = self.save_alone(self.process, most_bytes=most)
                self.assertEqual((end, self.newest(), self.leftovers()), ("exit 1", "step 20", []))
                self.assertEqual(writes[-1][1], "-1 EFBIG")
                shortened += any(result == str(most) and most < asked for asked, result in writes if most > 0)
        self.assertGreater(shortened, 3)
        self.assertEqual((self.save_alone(self.process, most_bytes=max(sizes))[0], self.newest()), ("exit 0", "step 30"))

    def test_a_write_of_no_bytes_is_a_failure(self):
        for when in ("start", "commit"):
            self.assertEqual(self.disturb(when, "write:retval=0:when=1"), ("exit 1", True))
            self.assertEqual(self.newest(), "step 20")

    def test_folders_that_cannot_be_synced(self):
        for error in ("EINVAL", "EBADF"):
            self.assertEqual(self.disturb("start", "fsync:error=" + error), ("exit 0", True))
            self.assertEqual(self.newest(), "step 30")

    def test_the_disk_stays_full(self):
        for calls in ("write", "fdatasync", "fsync", "write,fdatasync,fsync", "mkdir", "rename"):
            for when in ("start", "commit"):
                with self.subTest(calls=calls, when=when):
                    end, _ = self.disturb(when, f"{calls}:error=ENOSPC")
                    if calls == "mkdir" and when == "commit":
                        self.assertEqual(end, "exit 0")  # all folders exist by then
                        continue
                    self.assertEqual(end, "exit 1")
                    self.assertEqual(self.newest(), "step 20")
                    self.assertEqual(self.leftovers(), [])

    def test_the_name_of_a_new_folder_is_put_on_the_disk(self):
        answers = self.disturbed(f"disturb {self.checkpoints} 30 1 start", "mkdir:error=EIO:when=99")
        self.assertEqual(answers[-1], "exit 0")
        with open(self.folder + "/trace") as file:
            calls = file.read()
        made = calls.index(f'mkdir("{self.checkpoints}"')
        self.assertRegex(calls[made:], rf'openat\(AT_FDCWD, "{self.folder}", [A-Z_|]*O_DIRECTORY[A-Z_|]*\) = (\d+)\n\d+ +fsync\(\1\b')

    def test_a_slow_disk_does_not_stall_steps(self):
        answers = self.disturbed(f"time {self.checkpoints} 1 10", "fdatasync,fsync:delay_enter=500000")  # microseconds
        self.assertEqual(answers[-1], "exit 0")
        words = answers[0].split()
        times = dict(zip(words[0::2], map(float, words[1::2])))
        print(times)
        self.assertGreater(times.pop("both_saves"), 4000)  # each save waits for the disk four times
        for name, milliseconds in times.items():
            self.assertLess(milliseconds, 250, name)
