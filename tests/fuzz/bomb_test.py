# SPDX-License-Identifier: MIT
"""Gives each reader the files of bombs.py at n and 2n parts: time grows no faster than the file, and memory is bounded."""
import os
import re
import shutil
import subprocess
import unittest

from bombs import BOMBS, MIB

FOLDER = os.path.join(os.environ["TEST_TMPDIR"], "bombs")
MOST_RATIO = 2.6  # of a reader that takes quadratic time it is 4
UNNOTICED = 0.03  # seconds, below which a ratio says nothing
TRIES = 4  # the least time counts, because other processes delay a reader


def measured(target, paths):
    """Returns [(seconds, MiB, verdict)] of reading each file in a process of its own."""
    result = subprocess.run([f"tests/fuzz/{target}_fuzz_test", "--measure", *paths], env={**os.environ, "TMPDIR": FOLDER}, capture_output=True, text=True,
                            check=True, timeout=600)
    lines = result.stdout.splitlines()
    pairs = zip(lines[::2], lines[1::2], strict=True)
    return [tuple(map(float, re.fullmatch(r"(\S+) s (\S+) MiB", used).groups())) + (verdict.strip(),) for verdict, used in pairs]


class BombTest(unittest.TestCase):
    def setUp(self):
        os.makedirs(FOLDER, exist_ok=True)
        self.addCleanup(shutil.rmtree, FOLDER)

    def written(self, name, content):
        path = os.path.join(FOLDER, name)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def test_every_reader(self):
        for target in sorted({bomb[0] for bomb in BOMBS}):
            bombs = [bomb for bomb in BOMBS if bomb[0] == target]
            paths = [self.written(f"{i}-{times}n", make(times * n)) for i, (_, _, make, n, _) in enumerate(bombs) for times in (1, 2)]
            tries = [measured(target, paths)]
            while len(tries) < TRIES and any(self.complaint(tries, bombs, paths, i) for i in range(len(bombs))):
                tries.append(measured(target, paths))
            for i, (_, what, _, _, _) in enumerate(bombs):
                with self.subTest(f"{target}: {what}"):
                    self.assertEqual(self.complaint(tries, bombs, paths, i), "")

    def complaint(self, tries, bombs, paths, i):
        """Says what is wrong with the reading of a bomb; tries have the costs of all."""
        target, what, _, n, most = bombs[i]
        one, two = (min(costs[2 * i + j][0] for costs in tries) for j in (0, 1))
        used = max(costs[2 * i + 1][1] for costs in tries)
        allowed = most + 16 * os.path.getsize(paths[2 * i + 1]) / MIB
        verdicts = [costs[2 * i + j][2] for costs in tries for j in (0, 1)]
        told = f"{target}: {n} and {2 * n} {what}: {one:.3f} and {two:.3f} s, {used:.0f} of {allowed:.0f} MiB, {verdicts[-1]}"
        print(told)
        right = set(verdicts) <= {"accepted", "refused"} and two < MOST_RATIO * one + UNNOTICED and used < allowed
        return "" if right else told


if __name__ == "__main__":
    unittest.main()
