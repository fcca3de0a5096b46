# SPDX-License-Identifier: MIT
"""Checks the comparison of runs: losses, configurations, times, and metrics that are not whole."""
import os
import sys
import unittest

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from command import CommandTest  # noqa: E402

LOSSES = [float(numpy.float32(5 / (1 + step))) for step in range(400)]


def records(steps, loss=lambda step: LOSSES[step], time=lambda step: 100.0 + step % 7, norm=lambda step: 1.5):
    lines = [{"step": 0, "weights_sha256": "a"}]
    for step in steps:
        lines.append({"step": step, "loss": loss(step), "learning_rate": 0.1, "gradient_norm": norm(step), "milliseconds": time(step)})
    return lines


class RunsTest(CommandTest):
    def run_of(self, name, lines, configuration="steps: 3\n", end=b""):
        path = self.write_lines(f"{name}/metrics.jsonl", lines)
        with open(path, "ab") as file:
            file.write(end)
        if configuration:
            self.write(f"{name}/resolved.yaml", f"run:\n  folder: {name}  # default\n{configuration}")
        return name

    def test_equal_runs(self):
        said = self.compare(self.run_of("a", records(range(1, 300))), self.run_of("b", records(range(1, 300))), expect=0)
        self.assertIn("configuration: equal\n", said)
        self.assertIn("losses: equal bit for bit, as gradient norms and hashes of weights are, in 299 common steps\n", said)
        self.assertIn("times: equal: B against A +0.00 % (99 % interval: +0.00 to +0.00 %) in 289 steps after the warm-up\n", said)
        self.assertTrue(said.endswith("verdict: equal\n"), said)

    def test_slower_and_faster(self):
        draws = numpy.random.default_rng(1).normal(size=400)
        a = self.run_of("a", records(range(1, 300)))
        b = self.run_of("b", records(range(1, 300), time=lambda step: (100.0 + step % 7) * (1.05 + 0.001 * draws[step])))
        self.assertRegex(self.compare(a, b, expect=1), r"times: slower: B against A \+(4.9|5.0)\d %(.|\n)*median 103.00, 108.\d\d ms")
        self.assertRegex(self.compare(b, a, expect=0), r"times: faster: B against A -4.7\d %(.|\n)*knows only these two runs(.|\n)*verdict: faster\n$")
        self.assertIn("verdict: equal", self.compare(a, b, "--least", "6", "--resolution", "10", expect=0))
        self.assertNotIn("times", self.compare(a, b, "--only", "losses", expect=0))

    def test_losses_that_part(self):
        a = self.run_of("a", records(range(1, 300)))
        nearest = float(numpy.nextafter(numpy.float32(LOSSES[150]), numpy.float32(9)))
        b = self.run_of("b", records(range(1, 300), loss=lambda step: nearest if step == 150 else LOSSES[step] + (0.25 if step > 150 else 0)))
        said = self.compare(a, b, expect=1)
        self.assertIn(f"losses: part at step 150 (A, B: {LOSSES[150]}, {nearest})\n", said)
        self.assertIn("gradient norms: equal bit for bit where both have them\n", said)
        self.assertRegex(said, r"farthest apart at step \d+: B - A = \+0.25\n   B - A from where they part: \+0.25 \(99 % interval: ")
        self.assertTrue(said.endswith("verdict: different\n"), said)
        self.assertIn("verdict: equal", self.compare(a, b, "--only", "times", expect=0))

    def test_gradient_norms_and_weights_that_part(self):
        a = self.run_of("a", records(range(1, 300)) + [{"step": 299, "weights_sha256": "b"}])
        b = self.run_of("b", records(range(1, 300), norm=lambda step: 1.5 + (step > 9)) + [{"step": 299, "weights_sha256": "c"}])
        said = self.compare(a, b, expect=1)
        for words in ("losses: equal bit for bit", "gradient norms: part at step 10 (A, B: 1.5, 2.5)", "weights: part at step 299\n"):
            self.assertIn(words, said)

    def test_configurations(self):
        a = self.run_of("a", records(range(1, 99)), "model: {width: 8, dropout: 0}\nlayers: [1]\n")
        b = self.run_of("b", records(range(1, 99)), "model:\n  width: 16  # override\n  dropout: 0\nlayers: [1]\nmemory_budget: none\n")
        said = self.compare(a, b, expect=0)
        self.assertIn("configuration: 2 keys differ (A, B):\n   model.width: 8, 16\n   memory_budget: absent, none\n", said)
        said = self.compare(a, self.run_of("c", records(range(1, 99)), ""), expect=0)
        self.assertIn("configuration: not compared, because there is no c/resolved.yaml\n", said)
        for text in ("}", "date: 2001-99-99\n", "a: " + "[" * 10**4):
            self.assertIn("is not YAML", self.compare(a, self.run_of("d", records(range(1, 99)), text), expect=3))

    def test_lengths_and_missing_steps(self):
        a = self.run_of("a", records(range(1, 300)))
        b = self.run_of("b", records([step for step in range(1, 200) if step not in (50, 51)]))
        said = self.compare(a, b, expect=0)
        for words in ("A: a: steps 1 to 299\n", "B: b: steps 1 to 199\n   2 steps between the first and the last are missing\n",
                      "in 197 common steps", "in 187 steps"):
            self.assertIn(words, said)
        self.assertIn("have no step in common", self.compare(a, self.run_of("c", records(range(300, 390))), expect=8))
        said = self.compare(a, self.run_of("d", records(range(1, 70))), expect=8)
        self.assertIn("undecided: 59 steps that both have after 10 of warm-up, expected at least 60", said)

    def test_the_later_line_of_a_step_counts(self):
        again = [{"step": 100, "checkpoint": 100}, *records(range(101, 301))[1:]]
        b = records(range(1, 151), loss=lambda step: 9.0 if step > 100 else LOSSES[step]) + again
        said = self.compare(self.run_of("a", records(range(1, 301))), self.run_of("b", b), expect=0)
        self.assertIn("50 steps were trained again after a resume; the later lines count\n", said)
        self.assertIn("in 300 common steps", said)
        self.assertIn("in 280 steps", said)  # both starts of B have a warm-up

    def test_steps_of_a_training_that_was_left_do_not_count(self):
        b = records(range(1, 200)) + records(range(51, 120))[1:]
        self.assertIn("B: b: steps 1 to 119\n", self.compare(self.run_of("a", records(range(1, 200))), self.run_of("b", b), expect=0))

    def test_slow_steps_after_a_resume_do_not_count(self):
        later = records(range(200, 300), time=lambda step: 900 if step < 210 else 100.0 + step % 7)[1:]
        lines = records(range(1, 200)) + [{"step": 199, "rollback": 205}] + later
        said = self.compare(self.run_of("a", records(range(1, 300))), self.run_of("b", lines), expect=0)
        self.assertIn("+0.00 % (99 % interval: +0.00 to +0.00 %) in 279 steps", said)
        self.assertIn("all these steps 28.7, 28.7 s (+0.00 %)", said)

    def test_losses_that_are_not_finite(self):
        a = self.run_of("a", records(range(1, 300), loss=lambda step: None if step > 200 else LOSSES[step]))
        said = self.compare(a, self.run_of("b", records(range(1, 300))), expect=1)
        self.assertIn("the losses of 99 steps are not finite", said)
        self.assertIn(f"losses: part at step 201 (A, B: None, {LOSSES[201]})", said)
        self.assertIn("losses: equal", self.compare(a, a, expect=0))

    def test_a_half_written_last_line(self):
        b = self.run_of("b", records(range(1, 300)), end=b'{"step":300,"lo')
        said = self.compare(self.run_of("a", records(range(1, 300))), b, expect=0)
        self.assertIn("B: b: steps 1 to 299\n   the last line was not written to its end, and is left out\n", said)

    def test_damaged_lines(self):
        b = self.run_of("b", records(range(1, 100)), end=b"\0" * 9 + b'\n\xff\n' + b"[" * 10**5 + b'\n{"step":100,"loss":1\n')
        said = self.compare(self.run_of("a", records(range(1, 100))), b, expect=0)
        self.assertIn("4 lines are damaged and left out, the first is line 101\n", said)

    def test_numbers_of_steps_that_are_too_large_take_no_time(self):
        far = {"step": 10**15, "loss": 1.0, "gradient_norm": 1.0, "milliseconds": 1.0}
        lines = [far] + records(range(1, 100))
        said = self.compare(self.run_of("a", lines), self.run_of("b", records(range(1, 100))), "--warm-up", str(10**12), expect=8)
        self.assertIn("   1 steps were trained again after a resume", said)
        self.assertIn("undecided: 0 steps that both have after 1000000000000 of warm-up", said)

    def test_metrics_of_another_version(self):
        a = self.run_of("a", records(range(1, 100)))
        for name, line, words in (("b", {"iteration": 1, "loss": 2}, "metrics.jsonl:101: has no number as step"),
                                  ("c", {"step": 100, "loss": 2.0, "gradient_norm": 1.0}, "has no number as milliseconds"),
                                  ("d", {"step": 100, "loss": "2.0", "gradient_norm": 1.0, "milliseconds": 1}, "has no number as loss"),
                                  ("e", {"step": 1.5}, "has no number as step"), ("f", {"step": True}, "has no number as step"),
                                  ("h", {"step": 10**400}, "has no number as step")):
            said = self.compare(a, self.run_of(name, records(range(1, 100)) + [line]), expect=3)
            self.assertIn(words, said)
            self.assertIn("expected lines with step, and lines of steps with loss, gradient_norm, milliseconds", said)
        self.assertIn("has no step in its 1 lines", self.compare(a, self.run_of("g", records([])), expect=3))

    def test_wrong_use(self):
        a, bench = self.run_of("a", records(range(1, 100))), self.write_lines("bench.jsonl", [{"x": 1}])
        self.write("empty/notes.txt", "")
        for arguments, words in (((a, "empty"), "empty is neither a run nor a checkpoint; expected the folder of a run"),
                                 ((a, "nowhere"), "nowhere is not there; expected"),
                                 ((a, bench), f"a is a run and {bench} is a file of a benchmark; expected two of one kind")):
            self.assertIn(words, self.compare(*arguments, expect=2))
        for arguments, words in (((a,), "required: B"), ((a, a, "--least", "0"), "expected a number above 0"),
                                 ((a, a, "--warm-up", "-1"), "expected"), ((a, a, "--least", "x"), "invalid percent value"),
                                 ((a, a, "--least", "4"), "expected at most --resolution, which is 3"), ((a, a, "--only", "x"), "invalid choice"),
                                 ((a, a, "--least", "nan"), "expected a number above 0")):
            self.assertIn(words, self.compare(*arguments, expect=2))


if __name__ == "__main__":
    unittest.main()
