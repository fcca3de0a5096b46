# SPDX-License-Identifier: MIT
"""A step counts as quiet only if other programs used little of the processors near it, and what a run starts is no other program."""

import os
import subprocess
import unittest

from quiet_steps import MOST_SHARE, OtherPrograms, descendants, user_seconds

SPACING = 0.05  # seconds between samples
LINE = 10  # bytes; the run writes one in each second


def sampled(others_share):
    """Returns samples of ten seconds. `others_share` returns the share of a processor that others use, by time."""
    others, used = OtherPrograms("unused"), 0.0
    for number in range(200):
        now = number * SPACING
        used += others_share(now) * SPACING
        others.samples.append((now, LINE * (1 + int(now)), used))
    return others


def quiet_lines(others):
    return [line for line in range(1, 9) if others.is_quiet(LINE * line, LINE * (line + 1))]


class QuietStepsTest(unittest.TestCase):
    def test_an_idle_machine(self):
        self.assertEqual(quiet_lines(sampled(lambda now: 0)), list(range(1, 9)))
        self.assertEqual(quiet_lines(sampled(lambda now: 0.8 * MOST_SHARE)), list(range(1, 9)))

    def test_a_busy_machine(self):
        self.assertEqual(quiet_lines(sampled(lambda now: 1.5 * MOST_SHARE)), [])

    def test_others_for_a_second(self):
        # They run from 4.1 to 5.1 s. Line n grows from n - 1 s to n s, and what is half a second away counts.
        self.assertEqual(quiet_lines(sampled(lambda now: 4.1 <= now < 5.1)), [1, 2, 3, 7, 8])

    def test_steps_without_samples_are_not_quiet(self):
        others = OtherPrograms("unused")
        others.samples = [(0.0, LINE, 0.0), (1.0, 2 * LINE, 0.0)]
        self.assertFalse(others.is_quiet(LINE, 2 * LINE))

    def test_children_of_children_are_no_other_programs(self):
        with subprocess.Popen(["sh", "-c", "sh -c 'while :; do :; done' & echo $!; wait"], stdout=subprocess.PIPE, text=True) as shell:
            loop = int(shell.stdout.readline())
            try:
                self.assertLessEqual({os.getpid(), shell.pid, loop}, set(descendants(os.getpid())))
                while user_seconds(loop) < 0.05:
                    self.assertIsNone(shell.poll())
            finally:
                os.kill(loop, 9)
        self.assertEqual(user_seconds(loop), 0)


if __name__ == "__main__":
    unittest.main()
