# SPDX-License-Identifier: MIT
"""Runs prepare text and reads what it writes, by the description of the formats."""
import hashlib
import json
import os
import shutil
import subprocess
import sys
import unittest

import numpy

TMP = os.environ["TEST_TMPDIR"]


def contents(path):
    with open(path, "rb") as file:
        return file.read()


class PreparedTextCase(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.join(TMP, "out")
        shutil.rmtree(self.folder, ignore_errors=True)

    def write(self, name, content):
        path = os.path.join(TMP, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def prepare(self, *arguments, code=0):
        """Returns what was printed; if it fails, the errors."""
        result = subprocess.run([sys.executable, "tools/text/prepare_text.py", *arguments, "--output", self.folder], capture_output=True,
                                text=True, check=False)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stderr if code else result.stdout

    def read(self, name):
        """Returns the ids of a token file and its sidecar."""
        path = os.path.join(self.folder, name)
        header = numpy.fromfile(path, dtype=numpy.int32, count=256)
        dtype = {(20240520, 1): numpy.uint16, (20240801, 7): numpy.uint32}[tuple(header[:2])]
        ids = numpy.fromfile(path, dtype=dtype, offset=1024)
        self.assertEqual(header[2], len(ids))
        self.assertFalse(header[3:].any())
        with open(path + ".json", encoding="utf-8") as file:
            sidecar = json.load(file)
        self.assertEqual(sidecar["tokens"], len(ids))
        self.assertEqual(sidecar["largest_token"], ids.max())
        self.assertEqual(sidecar["sha256"], hashlib.sha256(ids.tobytes()).hexdigest())
        ends = numpy.fromfile(path + ".documents", dtype=numpy.int32, offset=1024)
        header = numpy.fromfile(path + ".documents", dtype=numpy.int32, count=256)
        self.assertEqual(header[:4].tolist(), [20261125, 1, len(ends), len(ids)])
        self.assertFalse(header[4:].any())
        self.assertEqual(sidecar["documents"], len(ends))
        self.assertGreater(numpy.diff(ends, prepend=0).min(), 0)
        self.assertEqual(ends[-1], len(ids))
        return ids, sidecar

    def documents(self, name):
        """Returns the documents of a token file as lists of ids."""
        ids, _ = self.read(name)
        ends = numpy.fromfile(os.path.join(self.folder, name + ".documents"), dtype=numpy.int32, offset=1024)
        return [part.tolist() for part in numpy.split(ids, ends[:-1])]

    def prepared(self):
        """Returns the contents of all token files and of what lies beside them."""
        return {name: contents(os.path.join(self.folder, name)) for name in sorted(os.listdir(self.folder))}
