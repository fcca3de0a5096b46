# SPDX-License-Identifier: MIT
"""Checks that token files which numpy writes as llm.c's scripts do are read as they were written."""
import os
import subprocess
import unittest

import numpy

PRINT_TOKENS = "tests/trainer/data/print_tokens"


def write_like_llm_c(path, ids, width):
    """Writes the header and payload of llm.c's dev/data/data_common.py, from its description."""
    magic, version, dtype = {2: (20240520, 1, numpy.uint16), 4: (20240801, 7, numpy.uint32)}[width]
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = magic, version, len(ids)
    with open(path, "wb") as file:
        file.write(header.tobytes())
        file.write(numpy.asarray(ids, dtype=dtype).tobytes())


class FormatTest(unittest.TestCase):
    def test_reads_what_numpy_wrote(self):
        random = numpy.random.default_rng(1)
        path = os.path.join(os.environ["TEST_TMPDIR"], "numpy.bin")
        for width, largest in ((2, 1 << 16), (4, 1 << 32)):
            for count in (1, 2, 1000, 12345):
                with self.subTest(width=width, count=count):
                    ids = random.integers(0, largest, count)
                    ids[-1] = largest - 1
                    write_like_llm_c(path, ids, width)
                    printed = subprocess.run([PRINT_TOKENS, path], check=True, capture_output=True, text=True).stdout
                    self.assertEqual([int(line) for line in printed.split()], ids.tolist())

    def test_exit_code_of_bad_data(self):
        path = os.path.join(os.environ["TEST_TMPDIR"], "numpy.bin")
        write_like_llm_c(path, [1, 2, 3], 2)
        os.truncate(path, 1024 + 5)
        result = subprocess.run([PRINT_TOKENS, path], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 3)
        self.assertIn("numpy.bin", result.stderr)


if __name__ == "__main__":
    unittest.main()
