# SPDX-License-Identifier: MIT
"""The confidence interval of the difference between the means of two groups of runs, each with one number.

Runs are drawn again from their group: the bootstrap standard error of B. Efron and R. Tibshirani, "An Introduction to the Bootstrap"
(1993), chapter 6. Few runs scatter less around their own mean than around the one that they estimate, which sqrt(n / (n - 1)) mends.
Student's t has the degrees of freedom of B. L. Welch, "The generalization of 'Student's' problem", Biometrika 34 (1947), because
groups may scatter differently."""
import numpy

from block_bootstrap import SEED, Interval, student_quantile

RESAMPLES = 4000


def standard_error(values, draws):
    """Returns the standard error of the mean of at least 2 values."""
    count = len(values)
    return numpy.std(values[draws.integers(0, count, (RESAMPLES, count))].mean(-1)) * numpy.sqrt(count / (count - 1))


def difference(first, second, confidence):
    """Returns the interval of mean(second) - mean(first). The same values give the same interval."""
    groups, draws = [numpy.asarray(values, dtype=float) for values in (first, second)], numpy.random.default_rng(SEED)
    variances = numpy.array([standard_error(values, draws) ** 2 for values in groups])
    estimate = float(groups[1].mean() - groups[0].mean())
    if not variances.any():
        return Interval(estimate, estimate, estimate)
    degrees = variances.sum() ** 2 / sum(variance**2 / (len(values) - 1) for variance, values in zip(variances, groups))
    half = float(student_quantile((1 + confidence) / 2, degrees) * numpy.sqrt(variances.sum()))
    return Interval(estimate, estimate - half, estimate + half)
