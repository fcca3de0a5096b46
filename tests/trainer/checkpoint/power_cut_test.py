# SPDX-License-Identifier: MIT
"""Power cuts during a save, which may lose or reorder all that was not synced. A save is traced once, and every state in
which a cut may leave the disk is loaded: it must be the checkpoint before or the new one, and the new one after the commit.
Each sync of a save is needed: without it, some state is bad."""

import dataclasses
import os
import shutil
import tempfile
import unittest

from power_cuts import CALLS, STRACE_OPTIONS, Operation, parse, read_tree, states, write_tree
from saving_process import SavingProcess

NAME = "checkpoints"
NEW = NAME + "/step-00000030"

# The states need no disk, and the next start and save after each of them have seven syncs, of 10 ms and more on a disk.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def committed(tree):
    """Returns the folders with names of checkpoints."""
    return {name: below for name, below in dict(tree).get(NAME, ()) if name.startswith("step-") and "." not in name}


class PowerCutTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = SavingProcess()

    @classmethod
    def tearDownClass(cls):
        cls.process.close()

    def setUp(self):
        self.folder = os.path.realpath(tempfile.mkdtemp(dir=MEMORY))
        self.root = self.folder + "/root"
        os.mkdir(self.root)
        self.damaged = lambda checkpoint: False  # what of step 30 has to be rejected

    def tearDown(self):
        shutil.rmtree(self.folder)

    def ask(self, command, *words):
        return self.process.ask(" ".join([command, self.root + "/" + NAME, *map(str, words)]))

    def save_steps(self, *steps, ranks=2):
        """Starts with a disk that holds these checkpoints."""
        self.ranks, self.operations, self.judged = ranks, [], {}
        shutil.rmtree(self.root)
        os.mkdir(self.root)
        for step in steps:
            self.assertEqual(self.ask("save", step, ranks), "committed")
        self.before = read_tree(self.root)

    def trace_save(self, step, *options, end="exit 0"):
        """Saves under strace with these options, which add operations to those before."""
        trace = self.folder + "/trace"
        answers = self.process.traced(f"disturb {self.root}/{NAME} {step} {self.ranks} start", CALLS, trace, *STRACE_OPTIONS, *options)
        self.assertEqual(answers, [end])
        first = len(self.operations)
        self.operations = parse(trace, self.root, self.operations)
        # If nothing is lost, the model shows what is on the disk. So no call is missing in the trace or in the model.
        folders = {os.path.dirname(operation.path) or "." for operation in self.operations}
        synced = self.operations + [Operation("sync", folder, len(self.operations)) for folder in folders if os.path.isdir(os.path.join(self.root, folder))]
        self.assertEqual(states(self.before, synced, len(synced)), [read_tree(self.root)])
        self.step = f"step {step}"
        self.renamed = self.index("rename", "data", f"{NAME}/step-{step:08}")
        self.promised = self.index("sync", "path", NAME, first) if end == "exit 0" else len(self.operations)
        self.assertLess(self.renamed, self.promised)

    def index(self, call, member, value, first=0):
        found = [index for index, operation in enumerate(self.operations) if index >= first and operation.call == call and getattr(operation, member) == value]
        self.assertEqual(len(found), 1, (call, value))
        return found[0]

    def syncs(self):
        return [index for index, operation in enumerate(self.operations) if operation.call == "sync"]

    def load(self, tree):
        """Returns the step that the next start loads from this tree, "nothing" if there is no checkpoint, or what is wrong."""
        shutil.rmtree(self.root)
        write_tree(self.root, tree)
        if self.damaged(committed(tree).get("step-00000030")):
            said = self.ask("check")
            if not said.startswith("error checkpoint of step 30 rejected: "):
                return "loads the damaged one: " + said
            shutil.rmtree(self.root + "/" + NEW)
        good = committed(read_tree(self.root))
        said = self.ask("check")
        if not good and said.endswith(": no checkpoint; one must be there"):
            return "nothing"
        if not said.startswith("step "):
            return said
        # The next start tidies up. Then the next save removes old checkpoints.
        if self.ask("clean") != "clean" or committed(read_tree(self.root)) != good or self.ask("check") != said:
            return said + ", and the next start harms it"
        if any(".tmp" in name for name in os.listdir(self.root + "/" + NAME)):
            return said + ", and temporary names are left"
        loaded = "step-%08d" % int(said.removeprefix("step "))
        if self.ask("save", 50, self.ranks) != "committed" or self.ask("check") != "step 50" or committed(read_tree(self.root)).get(loaded) != good[loaded]:
            return said + ", and the next save harms it"
        return said

    def bad_states(self, operations, *before):
        """Yields what is wrong in each state that is wrong. Before the commit one of `before` is right. Each different tree is
        loaded once. Cuts late in the trace come first."""
        for done in range(len(operations), -1, -1):
            right = before if done <= self.renamed else (*before, self.step) if done <= self.promised else (self.step,)
            for tree in states(self.before, operations, done):
                if tree not in self.judged:
                    self.judged[tree] = self.load(tree)
                if self.judged[tree] not in right:
                    yield f"cut after {done} of {len(operations)} operations: {self.judged[tree]}"

    def expect_survived(self, *before):
        self.assertEqual(list(self.bad_states(self.operations, *before)), [])
        loads = list(self.judged.values())
        print(len(loads), "different states after", len(self.operations) + 1, "cuts:", {load: loads.count(load) for load in sorted(set(loads))})
        self.assertEqual(set(loads), {*before, self.step})

    def expect_bad(self, operations, before):
        self.assertIsNotNone(next(self.bad_states(operations, before), None), "no state of this mutant is bad")

    def without(self, index):
        return [*self.operations[:index], Operation("nothing"), *self.operations[index + 1:]]

    def test_the_first_save(self):
        for ranks in 1, 2, 3:
            with self.subTest(ranks=ranks):
                self.save_steps(ranks=ranks)
                self.trace_save(30)
                self.expect_survived("nothing")

    def test_each_sync_of_the_first_save_is_needed(self):
        self.save_steps()
        self.trace_save(30)
        self.assertEqual(len(self.syncs()), 1 + self.ranks + 3)  # the folder of checkpoints, files of ranks, manifest, two folders
        for sync in self.syncs():
            with self.subTest(self.operations[sync].path):
                self.expect_bad(self.without(sync), "nothing")

    def test_a_save_that_removes_the_oldest(self):
        for ranks in 1, 2, 3:
            with self.subTest(ranks=ranks):
                self.save_steps(10, 20, ranks=ranks)
                self.trace_save(30)
                self.assertNotIn("step-00000010", committed(read_tree(self.root)))
                self.expect_survived("step 20")

    def test_each_sync_of_a_later_save_is_needed(self):
        self.save_steps(10, 20)
        self.trace_save(30)
        for sync in self.syncs()[1:]:  # the folder of checkpoints has had its name since the first save
            with self.subTest(self.operations[sync].path):
                self.expect_bad(self.without(sync), "step 20")

    def test_a_rename_before_the_names_of_files_are_synced_is_bad(self):
        self.save_steps(10, 20)
        self.trace_save(30)
        sync = self.operations[self.renamed - 1]
        self.assertEqual(sync.call, "sync")
        mutant = [*self.operations]
        mutant[self.renamed - 1:self.renamed + 1] = [self.operations[self.renamed], dataclasses.replace(sync, path=NEW)]
        self.renamed -= 1
        self.expect_bad(mutant, "step 20")

    def test_a_save_in_the_place_of_a_damaged_one(self):
        self.save_steps(20, 30)
        with open(f"{self.root}/{NEW}/manifest.json", "r+b") as file:
            file.truncate(100)
        self.before = read_tree(self.root)
        damaged = committed(self.before)["step-00000030"]
        self.damaged = lambda checkpoint: checkpoint == damaged
        self.trace_save(30)
        self.expect_survived("step 20")

    def test_a_save_after_one_that_was_killed_before_its_name_was_synced(self):
        self.save_steps(10, 20)
        self.trace_save(30, "-e", "inject=fsync:signal=KILL:when=2", end="signal 9")
        self.assertEqual(self.ask("check"), "step 30")  # the next start resumes from it
        self.trace_save(40)
        self.expect_survived("step 20", "step 30")

    def test_a_save_whose_name_could_not_be_synced(self):
        """The new name is taken back, and its files are removed. A cut may leave the name and some of the files."""
        self.save_steps(10, 20)
        self.damaged = lambda checkpoint: checkpoint is not None and len(checkpoint) < self.ranks + 1
        self.trace_save(30, "-e", "inject=fsync:error=EIO:when=2", end="exit 1")
        self.assertEqual([*committed(read_tree(self.root))], ["step-00000010", "step-00000020"])
        self.expect_survived("step 20")


if __name__ == "__main__":
    unittest.main()
