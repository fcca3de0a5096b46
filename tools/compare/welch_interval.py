# SPDX-License-Identifier: MIT
"""The confidence interval of the difference between the means of two groups of runs, each with one number.

Groups may scatter differently, so that Student's t has the degrees of freedom of B. L. Welch, "The generalization of 'Student's'
problem when several different population variances are involved", Biometrika 34 (1947)."""
import numpy

from block_bootstrap import Interval, student_quantile


def squared_error(values):
    """Returns the square of the standard error of the mean of at least 2 values."""
    return values.var(ddof=1) / len(values)


def difference(first, second, confidence):
    """Returns the interval of mean(second) - mean(first)."""
    groups = [numpy.asarray(values, dtype=float) for values in (first, second)]
    squares = numpy.array([squared_error(values) for values in groups])
    estimate = float(groups[1].mean() - groups[0].mean())
    if not squares.any():
        return Interval(estimate, estimate, estimate)
    degrees = squares.sum() ** 2 / sum(square**2 / (len(values) - 1) for square, values in zip(squares, groups))
    half = float(student_quantile((1 + confidence) / 2, degrees) * numpy.sqrt(squares.sum()))
    return Interval(estimate, estimate - half, estimate + half)
