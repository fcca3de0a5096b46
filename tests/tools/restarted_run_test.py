# SPDX-License-Identifier: MIT
"""Kills a rank of a small model in mid-run: the launcher starts the run again, and all losses are those of a run
without the kill."""
import json
import os
import re
import signal
import time
import unittest

from archive import SMALL, Archive

STEPS, EVERY = 200, 10  # the kill must come before the last step
MOST_SECONDS = 60  # from the kill to the first new step; 15 on two loaded cores


def process_of_rank(rank, mark):
    """Returns the process id of a rank whose environment has STRATA_TEST_MARK=mark."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            program = os.readlink(f"/proc/{process}/exe")
        except OSError:  # the process has ended, or belongs to somebody else
            continue
        if program.endswith("/bin/train") and {f"OMPI_COMM_WORLD_RANK={rank}".encode(), f"STRATA_TEST_MARK={mark}".encode()} <= set(variables):
            return int(process)
    raise ProcessLookupError(f"no rank {rank}")


class RestartedRunTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = Archive(os.path.join(os.environ["TEST_TMPDIR"], "restarted"))
        cls.archive.prepare_small_text()

    def command(self, name, *more):
        return ["train", "configs/quickstart.yaml", *SMALL, f"steps={STEPS}", f"checkpoint.every={EVERY}", f"run.folder=runs/{name}", "--ranks", "2", *more]

    def records(self, name):
        return self.archive.records(f"runs/{name}")

    def losses(self, name):
        return [(record["step"], record["loss"]) for record in self.records(name) if "loss" in record]

    def test_a_killed_rank_changes_no_loss(self):
        words, code = self.archive.run(*self.command("unbroken"))
        self.assertEqual(code, 0, words)

        process = self.archive.start(*self.command("killed", "run.restarts=2"), environment={"STRATA_TEST_MARK": str(os.getpid())})
        words, killed, seconds = "", None, None
        for line in process.stdout:
            words += line
            is_step = re.match(r"step: \d+  loss: ", line) is not None
            if killed is None and is_step and any("checkpoint" in record for record in self.records("killed")):
                os.kill(process_of_rank(1, os.getpid()), signal.SIGKILL)
                killed = time.monotonic()
            elif seconds is None and is_step and "restart 1 of 2" in words:
                seconds = time.monotonic() - killed
        self.assertEqual(process.wait(timeout=60), 0, words)
        self.assertIsNotNone(seconds, words)
        print(f"from the kill to the first new step: {seconds:.1f} s")
        self.assertLess(seconds, MOST_SECONDS)

        said = re.findall(r"^strata: exit code 137: rank 1 was killed on .*; restart 1 of 2 \(1 of 1000 in all\) in 1 s, from step (\d+)$", words, re.MULTILINE)
        self.assertEqual(len(said), 1, words)
        self.assertIn(int(said[0]), range(EVERY, STEPS, EVERY))
        self.assertEqual(self.losses("killed"), self.losses("unbroken"))
        self.assertEqual([step for step, _ in self.losses("killed")], list(range(1, STEPS + 1)))
        with open(self.archive.path("runs/killed/error-1.json"), encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual((report["code"], report["rank"]), (137, 1))
        self.assertFalse(os.path.exists(self.archive.path("runs/killed/error.json")))


if __name__ == "__main__":
    unittest.main()
