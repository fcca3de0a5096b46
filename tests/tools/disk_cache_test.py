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

    def add(self, name, *, read, written, size=256 * MIB):
        """Adds a file of zeros that takes no room on the disk. `read` and `written` are hours ago."""
        path = os.path.join(self.cache, "bazel", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.truncate(size)
        now = time.time()
        os.utime(path, (now - 3600 * read, now - 3600 * written))

    def launcher(self, script, limit):
        script = 'source tools/launcher/common.sh; source tools/launcher/build.sh; CACHE=$1; ' + script
        environment = os.environ | ({"STRATA_DISK_CACHE_GIB": limit} if limit else {})
        command = ["bash", "-euo", "pipefail", "-c", script, "bash", self.cache]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        return done, sorted(file for _, _, files in os.walk(self.cache) for file in files)

    def prune(self, limit, code=0):
        done, files = self.launcher('limit=$(disk_cache_limit) || exit "$?"; prune_disk_cache "$limit"', limit)
        self.assertEqual((done.returncode, bool(done.stderr)), (code, code != 0), done.stderr)
        return files

    def make_room(self, disk):
        """Makes room for a build on a disk of `disk` GiB, where the cache has files of 1 GiB and nobody else has any."""
        done, files = self.launcher(
            'say() { echo "$*"; }; df() { echo Avail; echo $((1024 * 1024 * (%d - $(find "$CACHE" -type f | wc -l)))); }; make_room_for_build 8' % disk, "")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return files, done.stdout

    def test_what_was_used_last_stays(self):
        self.add("cas/aa/old", read=90, written=90)
        self.add("cas/aa/read", read=1, written=90)
        self.add("cas/ab/written", read=80, written=2)
        self.add("cas/ab/older", read=50, written=60)
        self.add("cas/ab/newer", read=40, written=60)
        self.assertEqual(self.prune("1"), ["newer", "older", "read", "written"])
        self.assertEqual(self.prune("0.75"), ["newer", "read", "written"])
        self.assertEqual(self.prune("0.5"), ["read", "written"])

    def test_a_result_goes_with_its_files(self):
        """Bazel would find the result, miss its file, and never write another result of the same name."""
        for name in ("ac/aa/whole", "ac/aa/broken"):
            self.add(name, read=1, written=1)
        for result, file in (("whole", "kept, empty"), ("broken", "deleted")):
            with open(os.path.join(self.cache, "bazel/ac/aa", result), "wb") as opened:
                opened.write(b"\x12\x40\0" + file.encode() + b"\x10\x01")
        self.add("cas/aa/kept", read=2, written=90)
        self.add("cas/aa/deleted", read=80, written=90)
        self.add("cas/ab/empty", read=99, written=99, size=0)
        self.assertEqual(self.prune("0.3"), ["empty", "kept", "whole"])

    def test_a_limit_that_is_no_number_deletes_nothing(self):
        self.add("cas/aa/a", read=9000, written=9000)
        for limit in ("none", "30GiB", "-1", "0,5", "1e3"):
            self.assertEqual(self.prune(limit, code=2), ["a"])

    def test_a_small_cache_stays_as_it_is(self):
        for name in ("cas/aa/a", "cas/ab/b", "ac/aa/c", "tmp/d"):
            self.add(name, read=9000, written=9000)
        self.assertEqual(self.prune(""), ["a", "b", "c", "d"])

    def test_the_cache_gives_way_where_the_disk_is_nearly_full(self):
        for hours in range(1, 5):
            self.add(f"cas/aa/{hours}", read=hours, written=90, size=1024 * MIB)
        self.assertEqual(self.make_room(16), (["1", "2", "3", "4"], ""))
        self.assertEqual(self.make_room(14), (["1", "2"], ""))
        files, words = self.make_room(11)
        self.assertEqual(files, [])
        self.assertIn("11 GiB free, and a build of all tests takes up to 12 GiB", words)

    def test_a_cache_that_is_a_link_gives_way_on_its_own_disk(self):
        """The disk of the link may be full: deleting files elsewhere frees nothing there."""
        self.add("cas/aa/old", read=90, written=90, size=1024 * MIB)
        os.rename(os.path.join(self.cache, "bazel"), self.cache + " elsewhere")
        os.symlink(self.cache + " elsewhere", os.path.join(self.cache, "bazel"))
        done, _ = self.launcher('df() { echo Avail; if [[ ${!#} == */bazel ]]; then echo 90000000; else echo 1000; fi; }; make_room_for_build 8', "")
        self.assertEqual((done.returncode, done.stderr, os.listdir(self.cache + " elsewhere/cas/aa")), (0, "", ["old"]))

    def test_no_cache_is_no_error(self):
        self.assertEqual(self.prune("1"), [])


if __name__ == "__main__":
    unittest.main()
