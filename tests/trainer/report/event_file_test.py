# SPDX-License-Identifier: MIT
"""Reads the event files with TensorBoard itself: numbers, steps and checksums."""

import glob
import subprocess
import tempfile
import time
import unittest

import numpy
from tensorboard.backend.event_processing import event_accumulator

WRITER = "tests/trainer/report/write_events"


class EventFileTest(unittest.TestCase):
    def test_tensorboard_reads_it(self):
        with tempfile.TemporaryDirectory() as folder:
            before = time.time()
            subprocess.run([WRITER, folder], check=True, stderr=subprocess.STDOUT)
            self.assertEqual(len(glob.glob(folder + "/events.out.tfevents.*")), 1)
            events = event_accumulator.EventAccumulator(folder).Reload()
            self.assertEqual(sorted(events.Tags()["scalars"]), ["loss", "phases/forward", "validation_loss"])

            def scalars(tag):
                return [(event.step, event.value) for event in events.Scalars(tag)]

            def float32(value):
                return float(numpy.float32(value))

            self.assertEqual(
                scalars("loss"), [(step, float32((0.1 if step < 4 else 0.3) * step)) for step in range(1, 7)])
            self.assertEqual(scalars("phases/forward"), [(step, float32(1e9 + step)) for step in range(1, 7)])
            self.assertEqual(scalars("validation_loss"), [(300_000_000_000, -1.5)])
            for event in events.Scalars("loss"):
                self.assertTrue(before - 1 < event.wall_time < time.time() + 1)
