# SPDX-License-Identifier: MIT
"""Checks where a program looks for packages: beside itself, or at most three folders above, where nobody else has put any."""
import os
import re
import shutil
import subprocess
import unittest

PROGRAM = os.path.abspath("tests/kernels/print_package_folders")
# The folders above the program, nearest first: index 4 is one too far.
ABOVE = ["a/b/c/d", "a/b/c", "a/b", "a", "."]


class PackageFoldersTest(unittest.TestCase):
    def setUp(self):
        self.root = os.path.join(os.path.realpath(os.environ["TEST_TMPDIR"]), "root")
        shutil.rmtree(self.root, ignore_errors=True)
        os.makedirs(os.path.join(self.root, ABOVE[0]))
        self.program = os.path.join(self.root, ABOVE[0], "program")
        shutil.copy(PROGRAM, self.program)

    def make(self, above, name="made_packages"):
        """Makes kernels/NAME, `above` folders above the program, and returns kernels/."""
        folder = os.path.normpath(os.path.join(self.root, ABOVE[above], "kernels"))
        os.makedirs(os.path.join(folder, name))
        return folder

    def searched(self, **environment):
        result = subprocess.run([self.program], env=environment, capture_output=True, text=True, check=True, cwd=self.root)
        return re.search(r"there is no package of .* \(key \w+\) in (.*?); ", result.stdout)[1]

    def test_at_most_three_folders_above(self):
        for above in range(4):
            with self.subTest(above):
                folder = self.make(above)
                self.assertEqual(self.searched(), folder)
                shutil.rmtree(folder)
        self.make(4)
        self.assertEqual(self.searched(), "any folder")

    def test_the_nearest_folder_that_has_packages(self):
        folders = {above: self.make(above) for above in (1, 2)}
        self.make(0, name="rms_norm")  # a folder of sources
        self.assertEqual(self.searched(), folders[1])
        shutil.rmtree(folders[1])
        self.assertEqual(self.searched(), folders[2])

    def test_the_folder_of_the_program_and_not_of_its_link_or_of_the_shell(self):
        link = os.path.join(self.root, "link")
        os.symlink(self.program, link)
        self.program = link
        self.make(4)
        self.assertEqual(self.searched(), "any folder")
        beside = self.make(0)
        self.assertEqual(self.searched(), beside)

    def test_the_folder_of_the_user_comes_first(self):
        beside = self.make(1)
        self.assertEqual(self.searched(STRATA_PACKAGES="/made"), f"/made and {beside}")
        self.assertEqual(self.searched(XDG_CACHE_HOME="/cache"), f"/cache/strata/packages and {beside}")
        self.assertEqual(self.searched(XDG_CACHE_HOME="cache", HOME=self.root), f"{self.root}/.cache/strata/packages and {beside}")


if __name__ == "__main__":
    unittest.main()
