# SPDX-License-Identifier: MIT
"""Times of steps as a shared machine has them: neighbors that depend on each other, heavy tails, drift, rare spikes, and work that
differs from step to step but is the same in each run."""
import numpy


def work(draws, count):
    """Logarithms of the work of each step: graphs of many sizes, which slowly grow."""
    return 0.1 * draws.normal(size=count) + numpy.linspace(0, 0.2, count)


def noise(draws, count, remembered=0.88, deviation=0.017, drift=0.004, spikes=0.01):
    """Logarithms of what one run adds: an autoregression with innovations of Student's t with 4 degrees of freedom (variance 2), a
    random walk, and spikes that last 1 to 3 steps."""
    innovations = draws.standard_t(4, count + 100) * deviation * numpy.sqrt((1 - remembered**2) / 2)
    series = numpy.zeros(count + 100)
    for step in range(1, count + 100):
        series[step] = remembered * series[step - 1] + innovations[step]
    walk = numpy.cumsum(draws.normal(size=count))
    series = series[100:] + drift * (walk - walk.mean()) / walk.std()
    for step in numpy.flatnonzero(draws.random(count) < spikes):
        series[step:step + draws.integers(1, 4)] += draws.exponential(0.7)
    return series


def pair(seed, slowdown=0.0):
    """Returns {step: milliseconds} of two runs. The second takes `slowdown` longer, begins later, ends earlier, and lacks some steps."""
    draws = numpy.random.default_rng(seed)
    count = int(draws.integers(350, 700))
    step_times = work(draws, count)
    first, second = (100 * numpy.exp(step_times + noise(draws, count)) for _ in range(2))
    kept = [step for step in range(count // 20, count * 9 // 10) if draws.random() > 0.03]
    return dict(enumerate(first)), {step: second[step] * (1 + slowdown) for step in kept}
