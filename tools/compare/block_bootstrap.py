# SPDX-License-Identifier: MIT
"""The confidence interval of the middle of a series whose neighbors depend on each other, as the times of steps do.

The series is drawn again from overlapping blocks of neighbors, the moving-block bootstrap of H. R. Künsch, "The jackknife and
the bootstrap for general stationary observations", Annals of Statistics 17 (1989). The number of blocks does not grow with
the series, so that its standard error is itself uncertain, and Student's t with one degree of freedom less than there are
blocks makes up for that: N. M. Kiefer and T. J. Vogelsang, "A new asymptotic theory for heteroskedasticity-autocorrelation
robust tests", Econometric Theory 21 (2005).
"""
import typing

import numpy

BLOCKS = 20  # longer blocks hold more of what neighbors share, and fewer blocks say less about the error
RESAMPLES = 1000
SEED = 1  # the same files give the same interval


class Interval(typing.NamedTuple):
    """Estimate and bounds, in the unit of the series."""
    estimate: float
    low: float
    high: float


def middle_mean(values):
    """Returns the mean of the middle half along the last axis. A few steps that another program has slowed down do not move it,
    and it scatters less than the median."""
    count = values.shape[-1]
    return numpy.sort(values)[..., count // 4:count - count // 4].mean(-1)


def block_length(count):
    """Returns how many neighbors stay together. A short series, such as repeated commands, has blocks of one."""
    return max(1, count // BLOCKS)


def student_quantile(probability, degrees):
    """Returns the quantile of Student's t. With t = sqrt(degrees) tan(angle), the density of the angle is cos(angle)^(degrees - 1)."""
    angles = numpy.linspace(-numpy.pi / 2, numpy.pi / 2, 100_001)
    density = numpy.cos(angles) ** (degrees - 1)
    below = numpy.concatenate([[0], numpy.cumsum(density[1:] + density[:-1])])
    return numpy.sqrt(degrees) * numpy.tan(numpy.interp(probability, below / below[-1], angles))


def interval(values, confidence):
    """Returns the interval of the middle mean of a series of at least 3 values, in their order."""
    values = numpy.asarray(values, dtype=float)
    count, length = len(values), block_length(len(values))
    blocks = -(-count // length)
    draws, offsets = numpy.random.default_rng(SEED), numpy.arange(length)
    means = []
    for _ in range(RESAMPLES):
        starts = draws.integers(0, count - length + 1, blocks)
        means.append(middle_mean(values[(starts[:, None] + offsets).ravel()[:count]]))
    # As in a sample variance: blocks scatter less around the mean of the series than around the one that it estimates.
    error = numpy.std(means) * numpy.sqrt(blocks / (blocks - 1))
    half = student_quantile((1 + confidence) / 2, blocks - 1) * error
    estimate = middle_mean(values)
    return Interval(float(estimate), float(estimate - half), float(estimate + half))
