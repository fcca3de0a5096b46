# SPDX-License-Identifier: MIT
"""Checks that Bazel's disk cache does not grow without bound: files that were used last stay."""
import os
import subprocess
import time
import unittest

TMP = os.environ["TEST_TMPDIR"]
MIB = 1 << 20


class DiskCacheTest(unittest.TestCase):
    def setUp(self):
        self.cache = os.path.join(TMP, self.id(), "with a space")

    def add(self, name, *, read, written):
        """Adds a file of 256 MiB that takes no room on the disk. It was read and written so many hours ago."""
        path = os.path.join(self.cache, "bazel", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(256 * MIB)
        now = time.time()
        os.utime(path, (now - 3600 * read, now - 3600 * written))

    def prune(self, limit):
        script = 'CACHE=$1 ROOT=/nowhere; source tools/launcher/build.sh; prune_disk_cache'
        environment = os.environ | ({"STRATA_DISK_CACHE_GIB": limit} if limit else {})
        subprocess.run(["bash", "-euo", "pipefail", "-c", script, "bash", self.cache], check=True, env=environment)
        return sorted(file for _, _, files in os.walk(self.cache) for file in files)

    def test_what_was_used_last_stays(self):
        self.add("cas/aa/old", read=90, written=90)
        self.add("cas/aa/read", read=1, written=90)
        self.add("cas/ab/written", read=80, written=2)
        self.add("ac/ab/older", read=50, written=60)
        self.add("ac/ab/newer", read=40, written=60)
        self.assertEqual(self.prune("1"), ["newer", "older", "read", "written"])
        self.assertEqual(self.prune("0.75"), ["newer", "read", "written"])
        self.assertEqual(self.prune("0.5"), ["read", "written"])

    def test_a_small_cache_stays_as_it_is(self):
        for name in ("cas/aa/a", "cas/ab/b", "ac/aa/c", "tmp/d"):
            self.add(name, read=9000, written=9000)
        self.assertEqual(self.prune(""), ["a", "b", "c", "d"])

    def test_no_cache_is_no_error(self):
        self.assertEqual(self.prune("1"), [])


if __name__ == "__main__":
    unittest.main()
