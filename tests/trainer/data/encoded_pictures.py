# SPDX-License-Identifier: MIT
"""Makes and encodes pictures, and runs image_batches on them."""

import io
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy
from forked_runs import ForkedRuns
from PIL import Image
from safetensors.torch import load_file

sys.path.insert(0, "tests/trainer")
from training_runs import expect_fault  # noqa: E402

BATCHES = os.path.abspath("tests/trainer/data/image_batches")
SIZE = 32


def picture(width, height, seed=0):
    """A smooth, colorful picture with some noise."""
    y, x = numpy.mgrid[0:height, 0:width]
    noise = numpy.random.default_rng(seed).integers(-20, 20, (height, width, 3))
    waves = numpy.stack([numpy.sin(x / 17 + seed), numpy.cos(y / 11 - seed), numpy.sin((x + 2 * y) / 23)], 2) * 100 + 128
    return Image.fromarray((waves + noise).clip(0, 255).astype(numpy.uint8))


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png(width, height, rows, depth=8, color=2, texts=()):
    """Writes a PNG chunk by chunk, with compressed texts before its pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    chunks = [chunk(b"IHDR", header), *(chunk(b"zTXt", b"a\0\0" + text) for text in texts), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


class ImageBatches(unittest.TestCase):
    """The common part of tests of folders and of archives."""

    @classmethod
    def setUpClass(cls):
        cls.program = cls.enterClassContext(ForkedRuns(BATCHES))

    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.root = self.temporary.name + "/images"
        self.runs = 0

    def write(self, name, data):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def batch(self, classes, seed=-1, first=0, count=0, channels=3, threads=2, expect=0, kind="folder", path=None, before=(), fault=None):
        self.runs += 1
        folder = "%s/out%d" % (self.temporary.name, self.runs)
        numbers = [str(number) for number in (classes, channels, SIZE, threads, seed, first, count)]
        words = [kind, path or self.root, *numbers, folder]
        if before:  # a command that a process of its own runs under
            done = subprocess.run([*before, BATCHES, *words], capture_output=True, text=True, timeout=60, check=False)
        else:
            done = self.program.run(*words)
        if fault:
            expect_fault(self, fault, expect, done.returncode, done.stdout + done.stderr)
        else:
            self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.bad = [line for line in done.stdout.splitlines() if not line.startswith("fingerprint ")]
        self.fingerprint, self.errors = done.stdout.split("fingerprint ")[-1], done.stderr
        if expect:
            return None
        result = load_file(folder + "/model.safetensors")
        return result["images"], result["labels"].long().tolist()
