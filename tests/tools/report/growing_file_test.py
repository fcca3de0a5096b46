# SPDX-License-Identifier: MIT
"""What is read of files that grow, are cut back, or go away while they are read."""
import os
import sys
import tempfile
import unittest
from unittest import mock

sys.path[:0] = ["tools", "tools/report"]
import growing_file  # noqa: E402
import run_folder  # noqa: E402
from growing_file import GrowingFile  # noqa: E402


class GrowingFileTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = os.path.join(self.folder, "file")

    def write(self, content, mode="wb"):
        with open(self.path, mode) as file:
            file.write(content)

    def test_only_whole_lines_and_each_once(self):
        file = GrowingFile(self.path)
        self.assertEqual(file.new_lines(9), [])
        self.write(b"a\nbc\nd")
        self.assertEqual(file.new_lines(1), [(b"a\n", 2)])
        self.assertEqual(file.new_lines(9), [(b"bc\n", 5)])
        self.assertEqual(file.new_lines(9), [])
        self.write(b"\n\xff", "ab")
        self.assertEqual(file.new_lines(9), [(b"d\n", 7)])

    def test_a_file_that_was_cut_back(self):
        self.write(b"a\nb\n")
        for content in (b"a\n", b"a\nc\n", b"a\nc\nb\n", b"", None):
            with self.subTest(content=content):
                self.write(b"a\nb\n")
                file = GrowingFile(self.path)
                file.new_lines(9)
                os.remove(self.path) if content is None else self.write(content)
                self.assertIsNone(file.new_lines(9))
                self.assertEqual(file.place, 4)

    def test_long_lines_take_little_memory(self):
        lines = [b"%d" % number + b"x" * 3_000_000 + b"\n" for number in range(10)]
        self.write(b"".join(lines))
        with mock.patch("growing_file.MOST_BYTES", 6_000_000):
            file, found = GrowingFile(self.path), []
            while new := file.new_lines(1000):
                self.assertLessEqual(len(new), 2)
                found += new
        self.assertEqual(found, [(line[:growing_file.LONGEST_LINE] + b"\n", sum(map(len, lines[:number + 1]))) for number, line in enumerate(lines)])

    def test_pipes(self):
        os.mkfifo(self.path)
        self.assertEqual(GrowingFile(self.path).new_lines(9), [])
        self.assertIsNone(GrowingFile(self.path, 5, "mark").new_lines(9))

    def test_a_text_that_goes_away_before_it_is_opened(self):
        with mock.patch("os.path.isfile", return_value=True):
            self.assertEqual(run_folder.text_of(self.folder, "error.json"), "")


if __name__ == "__main__":
    unittest.main()
