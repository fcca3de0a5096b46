# SPDX-License-Identifier: MIT
"""A file is replaced as a whole or not at all, and nothing else is left in its folder."""
import errno
import os
import resource
import stat
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, "tools")
from whole_file import WholeFile, replace_file  # noqa: E402

LARGE = bytes(1 << 20)


class WholeFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.folder, "file")
        replace_file(self.path, "old")

    def assert_content(self, expected, *others):
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), expected)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(["file", *others]))

    def test_readers_find_the_old_content_until_all_of_the_new_is_there(self):
        with WholeFile(self.path) as file:
            file.write(b"ne")
            file.flush()
            self.assert_content(b"old", f"file.{os.getpid()}.tmp")
            file.write(b"w")
        self.assert_content(b"new")
        replace_file(self.path, "süß")
        self.assert_content("süß".encode())

    def test_a_new_file_has_the_mode_that_the_umask_gives(self):
        mask = os.umask(0o027)
        self.addCleanup(os.umask, mask)
        replace_file(self.path, "new")
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o640)

    def test_the_bytes_are_on_the_disk_before_the_name(self):
        calls = []

        def record(name, function):
            def call(*arguments):
                folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
                calls.append(name + " folder" * folder)
                return function(*arguments)
            return mock.patch("whole_file.os." + name, call)
        with record("fsync", os.fsync), record("replace", os.replace):
            replace_file(self.path, "new")
        self.assertEqual(calls, ["fsync", "replace", "fsync folder"])

    def test_an_error_leaves_the_old_file(self):
        for error in (ValueError("words"), KeyboardInterrupt()):
            with self.assertRaises(type(error)), WholeFile(self.path) as file:
                file.write(b"new")
                raise error
            self.assert_content(b"old")
        with self.assertRaises(UnicodeEncodeError):
            replace_file(self.path, "\udc80")
        self.assert_content(b"old")
        for call in ("fsync", "replace"):
            with mock.patch("whole_file.os." + call, side_effect=OSError(errno.EIO, "Input/output error")), self.assertRaises(OSError) as caught:
                replace_file(self.path, "new")
            self.assertEqual(caught.exception.filename, self.path)
            self.assert_content(b"old")

    def test_a_disk_without_space(self):
        """A limit of the size of files stands for it: a write fails, and so does the one that closes the file."""
        def by_context():
            with WholeFile(self.path) as file:
                file.write(LARGE)

        def by_hand():
            file = WholeFile(self.path)
            try:
                file.write(LARGE)
            except OSError:
                file.abandon()
                raise

        def small():
            replace_file(self.path, "x" * 2000)  # stays in a buffer until the file is complete
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        for write in (by_context, by_hand, small):
            with self.subTest(write.__name__):
                with self.assertRaises(OSError) as caught:
                    write()
                self.assertEqual((caught.exception.errno, caught.exception.filename), (errno.EFBIG, self.path))
                self.assert_content(b"old")

    def test_abandoned_by_hand(self):
        file = WholeFile(self.path)
        file.write(b"new")
        file.abandon()
        file.abandon()
        self.assert_content(b"old")
        file = WholeFile(self.path)
        file.write(b"new")
        file.complete()
        file.abandon()
        self.assert_content(b"new")

    def test_what_a_killed_process_of_the_same_number_left_is_removed(self):
        os.symlink("precious", f"{self.path}.{os.getpid()}.tmp")
        replace_file(os.path.join(self.folder, "precious"), "words")
        replace_file(self.path, "new")
        self.assert_content(b"new", "precious")
        with open(os.path.join(self.folder, "precious"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "words")

    def test_a_link_is_replaced_and_its_target_stays(self):
        os.rename(self.path, os.path.join(self.folder, "target"))
        os.symlink("target", self.path)
        replace_file(self.path, "new")
        self.assertFalse(os.path.islink(self.path))
        with open(os.path.join(self.folder, "target"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")

    def test_devices_and_pipes_are_refused(self):
        pipe, link = os.path.join(self.folder, "pipe"), os.path.join(self.folder, "link")
        os.mkfifo(pipe)
        os.symlink("/dev/null", link)
        for path in (pipe, link):
            with self.assertRaisesRegex(OSError, "expected a regular file or a new name, and it is a device or a pipe"):
                replace_file(path, "new")
        self.assert_content(b"old", "link", "pipe")

    def test_a_folder_that_is_not_there(self):
        path = os.path.join(self.folder, "nowhere", "file")
        with self.assertRaises(FileNotFoundError) as caught:
            WholeFile(path)
        self.assertEqual(caught.exception.filename, path)
        with self.assertRaises(IsADirectoryError) as caught:
            replace_file(self.folder, "new")
        self.assertEqual(caught.exception.filename, self.folder)

    def test_a_folder_that_cannot_be_synced(self):
        sync = os.fsync
        for code, expected in ((errno.EINVAL, None), (errno.EBADF, None), (errno.EIO, OSError)):
            def refuse(number, code=code):
                if stat.S_ISDIR(os.fstat(number).st_mode):
                    raise OSError(code, "it cannot be synced")
                sync(number)
            with mock.patch("whole_file.os.fsync", refuse):
                if expected:
                    with self.assertRaises(expected):
                        replace_file(self.path, "new")
                else:
                    replace_file(self.path, "new")
            self.assert_content(b"new")


if __name__ == "__main__":
    unittest.main()
