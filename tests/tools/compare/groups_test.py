# SPDX-License-Identifier: MIT
"""Checks the comparison of groups of runs: the interval over runs, verdicts on losses and times, and what is refused."""
import functools
import json
import os
import sys
import unittest
from unittest import mock

import numpy

sys.path[:0] = ["tools/compare", "tools", os.path.dirname(os.path.abspath(__file__))]

import verdict  # noqa: E402
import welch_interval  # noqa: E402
from command import CommandTest  # noqa: E402

CONFIDENCE, REPETITIONS = 0.99, 20_000
STEPS = 200


def missed(count, other, spread=1.0, repetitions=REPETITIONS, quantile=welch_interval.student_quantile):
    """Returns the share of groups of normal values, of equal means, whose interval leaves out 0. Degrees of freedom are rounded."""
    draws, cached = numpy.random.default_rng(1), functools.cache(quantile)
    with mock.patch.object(welch_interval, "student_quantile", lambda probability, degrees: cached(probability, round(degrees, 2))):
        found = [welch_interval.difference(draws.normal(size=count), spread * draws.normal(size=other), CONFIDENCE) for _ in range(repetitions)]
    return sum(not each.low < 0 < each.high for each in found) / repetitions


class IntervalTest(unittest.TestCase):
    def test_intervals_contain_the_difference(self):
        """The interval is an approximation, which is worst for a few runs beside many."""
        for count, other, spread, most in ((3, 3, 1, 0.01), (5, 5, 1, 0.012), (3, 8, 1, 0.02), (8, 3, 5, 0.028)):
            with self.subTest(count=count, other=other, spread=spread):
                self.assertLessEqual(missed(count, other, spread), most)

    def test_the_normal_distribution_misses_it_more_often(self):
        self.assertGreater(missed(3, 3, quantile=lambda probability, degrees: 2.5758), 0.035)

    def test_it_is_that_of_welch(self):
        first, second = [3.1, 3.3, 3.2, 3.6], [3.0, 2.9, 3.1, 2.8, 3.05]
        # By hand: variances 0.046667 / 4 and 0.0145 / 5, 4.46966 degrees of freedom, whose quantile at 99.5 % is 4.28992.
        half = 4.28992 * (0.14 / 3 / 4 + 0.0145 / 5) ** 0.5
        found = welch_interval.difference(first, second, CONFIDENCE)
        for value, expected in zip(found, (-0.33, -0.33 - half, -0.33 + half), strict=True):
            self.assertAlmostEqual(value, expected, places=5)
        for mutant in (lambda values: values.var() / len(values), lambda values: values.var(ddof=1)):
            with mock.patch.object(welch_interval, "squared_error", mutant):
                self.assertNotAlmostEqual(welch_interval.difference(first, second, CONFIDENCE).high, found.high, places=2)

    def test_values_without_scatter(self):
        self.assertEqual(welch_interval.difference([1, 1, 1], [3, 3, 3], CONFIDENCE), (2, 2, 2))

    def test_verdicts_on_losses(self):
        for low, high, word in ((-1, 1, verdict.UNDECIDED), (0.1, 9, verdict.WORSE), (-9, -0.1, verdict.BETTER), (-0.4, 0.4, verdict.EQUAL),
                                (0.1, 0.4, verdict.EQUAL)):
            self.assertEqual(verdict.losses_verdict(welch_interval.Interval(0, low, high), 0.5), word)
        for words, word in ((["better", "faster"], "better"), (["better", "slower"], "slower"), (["worse", "slower"], "worse"),
                            (["better", "undecided"], "undecided")):
            self.assertEqual(verdict.most_important(words), word)


class GroupsTest(CommandTest):
    def run_of(self, name, seed, lower=0.0, factor=1.0, more=(), configuration="width: 8", steps=STEPS):
        """A run whose losses scatter by 0.01 between seeds, and whose steps take 100 ms and 0.3 % more or less between starts."""
        draws = numpy.random.default_rng(sum(name.encode()) + 1000 * seed)
        run_shift, start_factor = 0.01 * draws.normal(), 1 + 0.003 * draws.normal()
        lines = [{"step": step, "loss": 3 + 1 / step + run_shift - lower + 0.05 * draws.normal(), "gradient_norm": 1.0,
                  "milliseconds": 100 * factor * start_factor * (1 + 0.01 * draws.random())} for step in range(1, steps + 1)]
        lines.append({"step": steps, "validation_loss": 3 + run_shift - lower})
        self.write_lines(f"{name}/metrics.jsonl", [*lines, *more])
        self.write(f"{name}/resolved.yaml", f"run:\n  folder: {name}\n  seed: {seed}\nmodel:\n  {configuration}\n")
        return name

    def group(self, letter, count=4, **options):
        return [self.run_of(f"{letter}{seed}", seed, **options) for seed in range(1, count + 1)]

    def test_equal_groups(self):
        said = self.compare("--loss-resolution", "2", *self.group("a"), "--", *self.group("b"), expect=0)
        for words in ("A1: a1: steps 1 to 200\n", "B4: b4: steps 1 to 200\n", "configuration: equal beside run.seed\n",
                      "training loss, mean of 20 steps up to 200: A, B: mean ", "validation loss after step 200: A, B: mean ", "   equal: B - A = ",
                      " (99 % Welch interval over runs: ", "times: equal: B against A ", " over runs, in 190 steps after the warm-up\n"):
            self.assertIn(words, said)
        self.assertTrue(said.endswith("verdict: equal\n"), said)

    def test_losses(self):
        a = self.group("a")
        self.assertIn("verdict: better\n", self.compare("--only", "losses", *a, "--", *self.group("b", lower=0.2), expect=0))
        self.assertIn("verdict: worse\n", self.compare("--only", "losses", *a, "--", *self.group("c", lower=-0.2), expect=1))
        self.assertIn("verdict: undecided\n", self.compare("--only", "losses", *a, "--", *self.group("d", lower=0.001), expect=8))

    def test_times(self):
        a = self.group("a")
        said = self.compare("--only", "times", *a, "--", *self.group("b", factor=1.05), expect=1)
        self.assertRegex(said, r"times: slower: B against A \+[45]\.\d\d % \(99 % Welch interval: .* over runs")
        self.assertIn("verdict: faster\n", self.compare("--only", "times", *a, "--", *self.group("c", factor=0.95), expect=0))
        # Each pair of runs would be called slower or faster by their steps alone.
        self.assertIn("verdict: equal\n", self.compare("--only", "times", *a, "--", *self.group("d"), expect=0))
        self.assertIn("0 steps that all runs have", self.compare("--only", "times", "--warm-up", "500", *a, "--", *self.group("e"), expect=8))

    def test_too_few_runs(self):
        said = self.compare(*self.group("a", 2), "--", *self.group("b", 2), expect=8)
        for words in ("validation loss after step 200: undecided: 2 runs of A and 2 of B, expected at least 3 of each", "times: undecided: 2 runs of A"):
            self.assertIn(words, said)

    def test_losses_that_are_not_finite(self):
        """Whoever has diverged is worse: on held-out data, or at the step after which the run was stopped."""
        a, b = self.group("a"), self.group("b", 3)
        bad_validation = self.run_of("x", 9, more=[{"step": STEPS, "validation_loss": None}])
        stopped = self.run_of("y", 9, more=[self.skipped(STEPS + 1)])
        early = [self.run_of(f"e{seed}", seed, steps=2, more=[self.skipped(3)]) for seed in (1, 2, 3)]
        for lost in (bad_validation, stopped):
            said = self.compare("--only", "losses", *a, "--", *b, lost, expect=1)
            self.assertIn("losses: worse: the loss is not finite at the end of B4: 0 of 4 runs of A and 1 of 4 of B\n", said)
            self.assertIn("losses: undecided: the loss is not finite at the end of A4: 1 of 4", self.compare("--only", "losses", *b, lost, "--", *a, expect=8))
        self.assertIn("verdict: better\n", self.compare("--only", "losses", *early, "--", *a, expect=0))
        self.assertIn("verdict: undecided\n", self.compare("--only", "losses", *early[:2], "--", *a, expect=8))
        self.assertIn("verdict: undecided\n", self.compare("--only", "losses", *early, "--", bad_validation, expect=8))

    @staticmethod
    def skipped(step):
        return {"step": step, "loss": None, "gradient_norm": None, "milliseconds": 100.0, "skipped": True}

    def with_skipped(self, name, seed, skipped, **options):
        """A run some of whose last steps were skipped, but not the last."""
        self.run_of(name, seed, **options)
        path = os.path.join(self.folder, name, "metrics.jsonl")
        with open(path, encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        self.write_lines(f"{name}/metrics.jsonl", [self.skipped(each["step"]) if each["step"] in skipped and "loss" in each else each for each in records])
        return name

    def test_skipped_steps_are_left_out(self):
        a, b = self.group("a"), self.group("b", 3)
        said = self.compare("--only", "losses", "--loss-resolution", "2", *a, "--", *b, self.with_skipped("x", 9, (190, 195)), expect=0)
        self.assertIn("losses: 2 of the last 20 steps are left out, because the loss of a run is not finite in them\n", said)
        self.assertIn("training loss, mean of 18 steps up to 200", said)
        at_end = self.with_skipped("z", 9, (200,))  # its validation loss after that step is finite
        self.assertIn("mean of 19 steps up to 199", self.compare("--only", "losses", "--loss-resolution", "2", *a, "--", *b, at_end, expect=0))
        many = self.with_skipped("y", 9, range(185, 200))
        self.assertIn("losses: undecided: expected at least half of these steps", self.compare("--only", "losses", *a, "--", *b, many, expect=8))

    def test_runs_that_end_early_and_old_evaluations(self):
        more = [{"step": 100, "validation_loss": 1.0}]
        a, b = (self.group(letter, 3, more=more) for letter in "ab")
        short = self.run_of("s", 9, steps=150, more=more)
        self.write_lines("s/metrics.jsonl", self.without_evaluation("s", 150))
        said = self.compare("--only", "losses", "--loss-resolution", "9", *a, "--", *b, short, expect=0)
        self.assertIn("losses: runs end between step 150 and step 200, and no loss after step 150 counts\n", said)
        self.assertIn("validation loss: does not count, because the last that all runs have is after step 100, before the last 15 steps\n", said)
        self.assertNotIn("validation loss after step", said)
        self.assertNotIn("runs end between", self.compare("--only", "losses", "--loss-resolution", "9", *a, "--", *b, expect=0))

    def without_evaluation(self, name, step):
        with open(os.path.join(self.folder, name, "metrics.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
        return [each for each in records if not ("validation_loss" in each and each["step"] == step)]

    def test_only_steps_and_evaluations_that_all_runs_have(self):
        short = [self.run_of("s", 9, steps=150)]
        said = self.compare("--only", "losses", "--loss-resolution", "9", *self.group("a"), "--", *self.group("b", 3), *short, expect=0)
        self.assertIn("training loss, mean of 15 steps up to 150", said)
        self.assertNotIn("validation loss", said)
        far = [self.run_of("f", 9, more=[{"step": STEPS + step, "loss": 3.0, "gradient_norm": 1.0, "milliseconds": 1.0} for step in (1, 2)])]
        self.assertIn("validation loss after step 200", self.compare("--only", "losses", *self.group("a"), "--", *self.group("b", 3), *far, expect=8))

    def test_evaluations_of_a_training_that_was_left_do_not_count(self):
        again = [{"step": step, "loss": 3.0, "gradient_norm": 1.0, "milliseconds": 1.0} for step in range(100, 150)]
        said = self.compare("--only", "losses", *self.group("a"), "--", *self.group("b", 3), self.run_of("r", 9, more=again), expect=8)
        self.assertNotIn("validation loss", said)

    def test_configurations(self):
        b = [*self.group("b", 3, configuration="width: 16"), self.run_of("x", 9, configuration="width: 17")]
        said = self.compare("--only", "times", *self.group("a"), "--", *b, expect=0)
        self.assertIn("configuration: 1 keys beside run.seed differ within B (B1, B4):\n   model.width: 16, 17\n", said)
        self.assertIn("configuration: 1 keys beside run.seed differ (A1, B1):\n   model.width: 8, 16\n", said)

    def test_copies_are_no_more_runs(self):
        a, copy = self.group("a"), self.run_of("b1", 1)
        with open(os.path.join(self.folder, "a1/metrics.jsonl"), encoding="utf-8") as file:
            self.write("copy/metrics.jsonl", file.read())
        said = self.compare(*a, "copy", "--", *self.group("b"), expect=3)
        self.assertIn("a1 and copy have equal losses in all 200 common steps, so that they are one run", said)
        self.assertIn("verdict: equal\n", self.compare("--only", "times", *a, "--", *self.group("b"), expect=0))
        self.assertIn("a1 was given twice", self.compare(*a, "--", "./a1", copy, expect=2))

    def test_wrong_use(self):
        a, bench = self.group("a", 3), self.write_lines("bench.jsonl", [{"x": 1}])
        for arguments, words in (((*a, "--"), "after -- folders of runs were expected"), (("--", *a), "required: A"),
                                 ((*a, "--", "b", "--only", "losses"), "and options before it"),
                                 ((*a, "--", bench), "is a file of a benchmark; with -- two groups of runs were expected"),
                                 ((*a, "--", "nowhere"), "nowhere is not there"), (a, "unrecognized arguments: a3"),
                                 ((*a, "--loss-resolution", "0", "--", *a), "expected a number above 0"),
                                 ((*a[:2], "--loss-resolution", "1"), "--loss-resolution is of groups of runs")):
            self.assertIn(words, self.compare(*arguments, expect=2))


if __name__ == "__main__":
    unittest.main()
