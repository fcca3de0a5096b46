# SPDX-License-Identifier: MIT
"""Runs compare as the launcher does, on files in a folder that is removed."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

MAIN = os.path.abspath("tools/compare/main.py")


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text if isinstance(text, bytes) else text.encode())
        return path

    def write_lines(self, name, records):
        return self.write(name, "".join(json.dumps(record) + "\n" for record in records))

    def compare(self, *arguments, expect):
        """Returns what is printed; an error must be one line."""
        done = subprocess.run([sys.executable, MAIN, *arguments], capture_output=True, text=True, check=False, cwd=self.folder)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        if expect in (2, 3, 4):
            self.assertEqual((done.stderr.count("\n"), "Traceback" in done.stderr), (1, False), done.stderr)
        return done.stdout + done.stderr
