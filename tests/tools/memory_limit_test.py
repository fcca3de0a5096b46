# SPDX-License-Identifier: MIT
"""A rank takes more memory than its cgroup has: the kernel kills it, and the launcher names memory as the likely cause. Somebody
who kills a rank is not taken for the kernel."""
import os
import sys
import time
import unittest

from fake_archive import FakeArchive

sys.path.insert(0, "tests/trainer")
from training_runs import expect_fault  # noqa: E402

LIMIT = str(256 << 20)  # bytes for the launcher, mpirun and all ranks
# The folder of cgroups that limit memory, and the name of the limit: cgroup v2, or v1.
HIERARCHIES = (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"))


def make_cgroup():
    """Returns the folder of a new cgroup with the limit, or None if this machine lets nobody make one."""
    for parent, limit in HIERARCHIES:
        group = os.path.join(parent, f"strata-{os.getpid()}")
        try:
            os.mkdir(group)
        except OSError:
            continue
        try:
            # A cgroup that delegates no memory has no such file, and a folder that is none has no file at all.
            if os.path.exists(os.path.join(group, limit)):
                with open(os.path.join(group, limit), "w", encoding="ascii") as file:
                    file.write(LIMIT)
                return group
        except OSError:
            pass
        os.rmdir(group)
    return None


class MemoryLimitTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = FakeArchive(os.path.join(os.environ["TEST_TMPDIR"], "archive"))

    def test_the_kernel_is_named(self):
        group = make_cgroup()
        if group is None:
            self.skipTest("no cgroup with a limit of memory can be made here: it takes root and a writable /sys/fs/cgroup")
        self.addCleanup(self.remove, group)
        config = self.archive.config(seconds=30, act="eat")
        enter = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$0" "$@"']
        code, _, errors = self.archive.run("train", config, before=enter)
        expect_fault(self, "memory limit of a cgroup", 137, code, errors)
        self.assertRegex(errors, r"rank 1 was killed on \S+ by SIGKILL: most likely by the kernel, because the memory of the host or of a cgroup ran out")
        self.assertEqual((self.archive.report()["code"], self.archive.report()["rank"]), (137, 1))

    def test_somebody_is_not_taken_for_the_kernel(self):
        code, _, errors = self.archive.run("train", self.archive.config(seconds=30, act="die"))
        self.assertEqual(code, 137, errors)
        self.assertRegex(errors, r"rank 1 was killed on \S+ by SIGKILL: by somebody, or by the kernel because memory ran out")

    @staticmethod
    def remove(group):
        for _ in range(50):  # processes that have just ended are in it for a moment
            try:
                return os.rmdir(group)
            except OSError:
                time.sleep(0.1)


if __name__ == "__main__":
    unittest.main()
