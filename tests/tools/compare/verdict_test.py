# SPDX-License-Identifier: MIT
"""Checks the verdict on times with synthetic runs: equal ones, slower ones, and mutants of the verdict that these must find."""
import argparse
import os
import sys
import unittest
from unittest import mock

import numpy

sys.path[:0] = ["tools/compare", "tools", os.path.dirname(os.path.abspath(__file__))]

import block_bootstrap  # noqa: E402
import compare_runs  # noqa: E402
import synthetic_times  # noqa: E402
import verdict  # noqa: E402

OPTIONS = argparse.Namespace(least=0.5, resolution=3.0)
PAIRS, SLOWER_PAIRS = 200, 100
ORIGINAL = verdict.relative_times


def words(pairs, slowdown):
    """Returns the verdicts on each of `pairs` pairs of runs."""
    return [verdict.times_verdict(verdict.relative_times(*compare_runs.paired(*synthetic_times.pair(seed, slowdown))), OPTIONS) for seed in range(pairs)]


def false_verdicts():
    found = words(PAIRS, 0)
    return found.count(verdict.SLOWER) + found.count(verdict.FASTER)


def slowdowns_found():
    return words(SLOWER_PAIRS, 0.03).count(verdict.SLOWER)


def by_place(first, second):
    """Pairs times by their place in the file, whatever their steps are."""
    return tuple(numpy.array(list(series.values()))[:len(second)] for series in (first, second))


def unpaired(first, second):
    """Leaves out which times are of one step."""
    return ORIGINAL(first, numpy.random.default_rng(1).permutation(second))


class VerdictTest(unittest.TestCase):
    def test_equal_runs(self):
        found = words(PAIRS, 0)
        self.assertLess(found.count(verdict.SLOWER) + found.count(verdict.FASTER), 0.01 * PAIRS)
        self.assertGreaterEqual(found.count(verdict.EQUAL), 0.9 * PAIRS, "a verdict that says nothing is of no use")

    def test_a_slowdown_of_three_percent(self):
        self.assertGreaterEqual(slowdowns_found(), 95)

    def test_a_speedup_of_three_percent(self):
        self.assertGreaterEqual(words(SLOWER_PAIRS, 1 / 1.03 - 1).count(verdict.FASTER), 95)

    def test_neighbors_that_are_drawn_one_by_one_give_false_verdicts(self):
        with mock.patch.object(block_bootstrap, "block_length", lambda count: 1):
            self.assertGreaterEqual(false_verdicts(), 0.03 * PAIRS)

    def test_mutants_do_not_find_a_slowdown(self):
        for owner, name, mutant in ((verdict, "relative_times", unpaired), (compare_runs, "paired", by_place),
                                    (verdict, "relative_times", lambda first, second: ORIGINAL(second, first)),
                                    (block_bootstrap, "middle_mean", lambda values: values.mean(-1))):
            with self.subTest(name), mock.patch.object(owner, name, mutant):
                self.assertLess(slowdowns_found(), 95)

    def test_noise_gives_no_verdict(self):
        draws = numpy.random.default_rng(1)
        first, second = 100 * numpy.exp(0.4 * draws.normal(size=(2, 60)))
        self.assertEqual(verdict.times_verdict(ORIGINAL(first, second), OPTIONS), verdict.UNDECIDED)

    def test_differences_that_are_sure_and_small_count_as_equal(self):
        draws = numpy.random.default_rng(1)
        first = 100 * numpy.exp(0.001 * draws.normal(size=400))
        for factor, word in ((1.004, verdict.EQUAL), (1 / 1.004, verdict.EQUAL), (1.007, verdict.SLOWER), (1 / 1.007, verdict.FASTER)):
            self.assertEqual(verdict.times_verdict(ORIGINAL(first, factor * draws.permutation(first)), OPTIONS), word)

    def test_together(self):
        for found, word in (([], verdict.EQUAL), (["faster", "equal"], "faster"), (["undecided", "faster"], "undecided"),
                            (["undecided", "slower"], "slower"), (["slower", "different", "undecided"], "different")):
            self.assertEqual(verdict.most_important(found), word)


class IntervalTest(unittest.TestCase):
    def test_student_quantiles(self):
        # From tables of Student's t.
        for probability, degrees, expected in ((0.995, 4, 4.6041), (0.995, 19, 2.8609), (0.975, 9, 2.2622), (0.9995, 5, 6.8688), (0.5, 7, 0.0)):
            self.assertAlmostEqual(block_bootstrap.student_quantile(probability, degrees), expected, delta=2e-4)

    def test_independent_values(self):
        """The error of the mean of the middle half of normal values is 1.09 sd / sqrt(n)."""
        values = numpy.random.default_rng(1).normal(size=4000)
        found = block_bootstrap.interval(values, 0.99)
        expected = 1.093 * 2.861 / numpy.sqrt(4000)
        self.assertAlmostEqual((found.high - found.low) / 2 / expected, 1, delta=0.3)

    def test_few_repetitions(self):
        """Intervals of five independent values contain 0 in at least 97 of 100 cases."""
        draws = numpy.random.default_rng(1)
        found = [block_bootstrap.interval(draws.normal(size=5), 0.99) for _ in range(300)]
        self.assertGreaterEqual(sum(each.low < 0 < each.high for each in found), 0.97 * 300)

    def test_the_same_values_give_the_same_interval(self):
        values = numpy.random.default_rng(1).normal(size=100)
        self.assertEqual(block_bootstrap.interval(values, 0.99), block_bootstrap.interval(list(values), 0.99))

    def test_the_middle_half(self):
        self.assertEqual(block_bootstrap.middle_mean(numpy.array([1e9, 3, 1, 2, 4, -1e9, 5, 6])), (2 + 3 + 4 + 5) / 4)


if __name__ == "__main__":
    unittest.main()
