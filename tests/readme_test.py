# SPDX-License-Identifier: MIT
"""What the README shows of the project is what the project says of itself."""

import os
import re
import subprocess
import unittest

import sources

ROOT = sources.root()


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.readme = read("README.md")

    def test_levels(self):
        result = subprocess.run(["tools/levels"], capture_output=True, text=True, check=True)
        self.assertIn(result.stdout.strip(), self.readme)

    def test_quick_start(self):
        lines = read("configs/quickstart.yaml").splitlines()[1:]
        self.assertIn("\n".join("    " + line for line in lines), self.readme)

    def test_reading_list(self):
        files = re.findall(r"^\| `([a-z_/]+\.[a-z]+)` \|", self.readme, re.MULTILINE)
        self.assertEqual(len(files), 6)
        for file in files:
            self.assertTrue(os.path.exists(os.path.join(ROOT, file)), file)


if __name__ == "__main__":
    unittest.main()
