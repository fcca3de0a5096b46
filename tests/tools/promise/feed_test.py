# SPDX-License-Identifier: MIT
"""Checks promises of runs that read images: steps and evaluations on CPUs and GPUs, energy, and the advice."""
import os
import sys
import unittest

sys.path[:0] = [os.path.join("tools", "promise"), "tools"]

import output  # noqa: E402
from machine_file import MachineFile  # noqa: E402
from made_up_times import FACTS, MACHINE, ROWS, TIMES  # noqa: E402
from run_cost import Promise  # noqa: E402


def promise_of(facts, rows):
    file = MachineFile("no file", MACHINE)
    for row in rows:
        file.add(row)
    return Promise(facts, file)


class FeedTest(unittest.TestCase):
    def image_promise(self, seconds, is_gpu=True, reader=4, **more):
        """The promise of ROWS, which compute a step in 291 s (between 150.5 and 571.5), with images that are read in `seconds` for one and
        for four micro-batches."""
        rows = [*ROWS, *({"kind": "feed", **TIMES, "feed": "some images", "pass": name, "micro_batches": count, "seconds": list(times)}
                         for name, count, times in (("training", 1, seconds[0]), ("training", 4, seconds[1]), ("evaluation", 1, (1, 3, 5))))]  # fmt: skip
        return promise_of({**FACTS, "is_gpu": is_gpu, "feed": {"name": "some images", "threads": reader}, **more}, rows)

    def test_a_step_on_a_gpu_takes_as_long_as_the_longer_of_reading_and_computation(self):
        longer = self.image_promise(([100, 140, 200], [400, 582, 900]))
        self.assertEqual([round(time, 6) for time in longer.step], [400, 582, 900])
        self.assertAlmostEqual(longer.parts["wait for images"][1], 582 - 291)
        self.assertEqual(longer.parts["wait for images"][0], 0)  # the computation may take up to 571.5 s
        self.assertAlmostEqual(sum(part[1] for part in longer.parts.values()), longer.step[1])
        self.assertIn("try data.threads=8 ", "\n".join(output.lines(longer)))
        self.assertIn("2 a second are read, and 3 could be computed", "\n".join(output.lines(longer)))
        self.assertRegex("\n".join(output.lines(longer)), r"  wait for images .*50\.0 %")
        shorter = self.image_promise(([10, 14, 20], [40, 58, 90]))
        self.assertEqual((shorter.step, shorter.parts["wait for images"]), (promise_of(FACTS, ROWS).step, (0, 0, 0)))
        self.assertNotIn("steps wait", "\n".join(output.lines(shorter)))

    def test_a_step_on_a_cpu_reads_and_then_computes(self):
        promise = self.image_promise(([10, 20, 30], [40, 80, 120]), is_gpu=False, reader=1)
        self.assertAlmostEqual(promise.step[1], 291 + 80)
        self.assertIn("try data.threads=2 ", "\n".join(output.lines(promise)))
        self.assertIn("smaller files", "\n".join(output.lines(self.image_promise(([10, 20, 30], [40, 80, 120]), is_gpu=False, reader=0))))
        self.assertIn("one thread of each rank copies", "\n".join(output.lines(self.image_promise(([10, 20, 30], [40, 80, 120]), is_gpu=False, reader=None))))

    def test_images_of_other_numbers_of_micro_batches_are_on_a_line(self):
        promise = self.image_promise(([10, 20, 30], [40, 80, 120]), is_gpu=False, micro_batches=7)
        self.assertAlmostEqual(promise.parts["wait for images"][1], 140)
        # The bounds of the line cross, or it falls below 0.
        crossed = self.image_promise(([1, 10, 11], [8, 10, 11]), is_gpu=False, micro_batches=10)
        for time, expected in zip(crossed.feed.step(), (10, 11, 22)):
            self.assertAlmostEqual(time, expected)
        self.assertEqual(self.image_promise(([40, 50, 60], [10, 11, 60]), is_gpu=False, micro_batches=7).feed.step(), (0, 0, 60))
        # One number alone grows with the micro-batches.
        feed = {"kind": "feed", **TIMES, "feed": "some images", "pass": "training", "micro_batches": 2, "seconds": [1, 2, 3]}
        self.assertEqual(promise_of({**FACTS, "feed": {"name": "some images", "threads": 1}}, [*ROWS, feed]).feed.step(), (2, 4, 6))

    def test_evaluations_read_too(self):
        # A round has three calls and what is between them: 7.5 s on average.
        for is_gpu, seconds in ((True, 7.5), (False, 7.5 + 3)):
            self.assertAlmostEqual(self.image_promise(([1, 1, 1], [4, 4, 4]), is_gpu).evaluations[1], (2 * 3 + 8) * seconds)

    def test_images_that_were_not_measured_have_no_number(self):
        promise = self.image_promise(([1, 1, 1], [4, 4, 4]), feed={"name": "other images", "threads": 0})
        self.assertEqual((promise.step, promise.evaluations, promise.parts["wait for images"]), (None, None, None))
        self.assertIn("how fast images are read was not measured", promise.missing["wait for images"])
        self.assertIsNotNone(output.as_json(promise)["computation_seconds"])

    def test_the_energy_of_a_gpu_that_waits_is_not_promised(self):
        rows = [ROWS[0], ROWS[1], {**ROWS[2], "watts": [500.0] * 3}, ROWS[3]]
        for seconds, watts in ((100, 500.0), (300, 500.0), (400, None)):  # the computation takes 291
            feed = {"kind": "feed", **TIMES, "feed": "some images", "pass": "training", "micro_batches": 4, "seconds": [seconds] * 3}
            promise = promise_of({**FACTS, "is_gpu": True, "feed": {"name": "some images", "threads": 4}}, [*rows, feed])
            self.assertEqual((promise.watts, "energy" in promise.missing), (watts, watts is None))


if __name__ == "__main__":
    unittest.main()
