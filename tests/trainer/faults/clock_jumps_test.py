# SPDX-License-Identifier: MIT
"""The wall clock of the ranks and of mpirun is set forward and back, in a run and between runs. Nothing that a run does may
depend on it: a preloaded library changes it, and no other clock."""

import contextlib
import glob
import itertools
import os
import re
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest

from tensorboard.backend.event_processing import event_accumulator

sys.path.insert(0, "tests/trainer")
from training_runs import TrainingRuns, rank_processes  # noqa: E402

CLOCK = os.path.abspath("tests/trainer/faults/libjumping_clock.so")
HOUR, YEAR = 3600, 365 * 86400
TIMEOUT = 10  # seconds of run.timeout, in which two ranks start on a busy machine


class ClockJumpsTest(TrainingRuns):
    def setUp(self):
        super().setUp()
        self.set_clock(0)
        self.environment = {"LD_PRELOAD": CLOCK, "STRATA_TEST_CLOCK": self.path("clock")}

    def set_clock(self, seconds):
        """Sets the wall clock ahead of the clock of the machine, at once and for all processes."""
        with open(self.path("clock"), "r+b" if os.path.exists(self.path("clock")) else "wb", buffering=0) as file:
            file.write(struct.pack("<q", seconds))

    @contextlib.contextmanager
    def jumps(self):
        """The clock jumps every few milliseconds, every other time to 20 years before or after."""
        ended = threading.Event()
        places = itertools.cycle([20 * YEAR, -HOUR, -20 * YEAR, TIMEOUT, 20 * YEAR, HOUR, -20 * YEAR, -TIMEOUT, 20 * YEAR, 0])

        def jump():
            while not ended.wait(0.003):
                self.set_clock(next(places))

        thread = threading.Thread(target=jump)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def wall_times(self, run, steps):
        """Returns the wall times of the losses in the event file, which must have those of all steps in their order."""
        self.assertEqual(len(glob.glob(self.path(run, "events.out.tfevents.*"))), 1)
        losses = event_accumulator.EventAccumulator(self.path(run)).Reload().Scalars("loss")
        self.assertEqual([event.step for event in losses], list(range(1, steps + 1)))
        return [event.wall_time for event in losses]

    def test_jumps_in_a_run_change_nothing(self):
        more = ["run.timeout=%d" % TIMEOUT, "log.every=1"]
        self.train("whole", *more)
        begin = time.monotonic()
        with self.jumps():
            self.train("run", *more, environment=self.environment)
        took = 1000 * (time.monotonic() - begin)
        times = self.wall_times("run", 20)
        self.assertGreater(max(times) - min(times), 10 * YEAR, "the clock has not jumped")
        self.assertEqual(self.losses("run"), self.losses("whole"))
        self.assertEqual(self.hashes("run"), self.hashes("whole"))
        self.assertEqual(sorted(os.listdir(self.path("run", "checkpoints"))), ["latest", "step-00000015", "step-00000020"])
        measured = [line["milliseconds"] for line in self.lines("run") if "milliseconds" in line]
        self.assertGreater(min(measured), 0)
        self.assertLess(sum(measured), took)

    def test_a_hang_is_named_in_time_after_the_clock_was_set_back(self):
        process = self.start("hang", "steps=1000000", "schedule={type: constant}", "checkpoint.every=0", "evaluation.every=0",
                             "run.timeout=%d" % TIMEOUT, environment=self.environment)
        self.wait_for_a_step(process, "hang")
        ranks = rank_processes(process.pid)
        os.kill(ranks[1], signal.SIGSTOP)
        begin = time.monotonic()
        self.set_clock(-HOUR)
        try:
            output = "".join(process.communicate(timeout=60))
        except subprocess.TimeoutExpired:
            for one in (process.pid, *ranks.values()):
                os.kill(one, signal.SIGKILL)
            raise
        took = time.monotonic() - begin
        self.assertEqual((process.returncode, self.error("hang")["code"]), (7, 7), output)
        self.assertIn("rank 1 did not answer", self.error("hang")["message"])
        self.assertTrue(TIMEOUT - 1 < took < 3 * TIMEOUT, "it ended after %.1f s" % took)

    def date_back(self, checkpoints, clock):
        """Gives the checkpoints the times of a run under this clock that was set back after each save."""
        for folder, _, files in os.walk(checkpoints):
            for path in [folder, *(os.path.join(folder, name) for name in files)]:
                date = time.time() + clock - HOUR * int(re.findall(r"step-(\d+)", path + "/step-0")[0])
                os.utime(path, times=(date, date), follow_symlinks=False)

    def test_checkpoints_are_ordered_by_their_steps(self):
        self.train("whole")
        checkpoints = self.path("run", "checkpoints")
        for last, clock, found in ((7, 20 * YEAR, None), (12, 10 * YEAR, 7), (20, 0, 12)):  # set back between runs
            self.set_clock(clock)
            self.train("run", "run.stop_after=%d" % last, environment=self.environment)
            self.assertIn("starts at step 0" if found is None else "resumed from step %d" % found, self.output)
            self.date_back(checkpoints, clock)
        self.assertEqual(sorted(os.listdir(checkpoints)), ["latest", "step-00000015", "step-00000020"])
        self.assertEqual(os.readlink(checkpoints + "/latest"), "step-00000020")
        self.assertEqual(self.losses("run"), self.losses("whole"))
        self.assertEqual(self.hashes("run")[20], self.hashes("whole")[20])
        times = self.wall_times("run", 20)
        self.assertGreater(times[6], times[7] + 9 * YEAR)
        self.assertGreater(times[11], times[12] + 9 * YEAR)


if __name__ == "__main__":
    unittest.main()
