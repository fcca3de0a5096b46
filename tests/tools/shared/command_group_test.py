# SPDX-License-Identifier: MIT
"""A command that is run to its end, and one that takes too long."""
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, "tools")
from command_group import outputs_of  # noqa: E402


class OutputsTest(unittest.TestCase):
    def test_the_end_of_a_command(self):
        script = "printf 'a\\377\\n'; echo b >&2; exit 3"
        self.assertEqual(outputs_of(["sh", "-c", script], 5), (3, "a\N{REPLACEMENT CHARACTER}\n", "b\n"))
        self.assertEqual(outputs_of(["pwd"], 5, 60, cwd="/"), (0, "/\n", ""))
        with self.assertRaises(FileNotFoundError):
            outputs_of(["/nowhere/command"], 5)

    def test_a_command_that_takes_too_long_is_ended_with_its_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            script = "(trap '' TERM; exec sleep 600) & echo $! >sleeper; wait"  # this program ignores the request to end
            with self.assertRaises(subprocess.TimeoutExpired):
                outputs_of(["sh", "-c", script], 0.2, 1, cwd=folder)
            with open(os.path.join(folder, "sleeper"), encoding="utf-8") as file:
                files = f"/proc/{file.read().strip()}/fd/1"  # a process that ended has none
        deadline = time.monotonic() + 60
        while os.path.exists(files):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
