# SPDX-License-Identifier: MIT
"""What a comparison says of two series of times, and of several such verdicts together."""
import math

import numpy

from block_bootstrap import interval

CONFIDENCE = 0.99
EQUAL, FASTER, SLOWER, DIFFERENT, UNDECIDED = "equal", "faster", "slower", "different", "undecided"
BETTER, WORSE = "better", "worse"  # of the losses of groups of runs
EXIT_CODES = {EQUAL: 0, FASTER: 0, BETTER: 0, SLOWER: 1, WORSE: 1, DIFFERENT: 1, UNDECIDED: 8}


def relative_times(first, second, confidence=CONFIDENCE):
    """Returns the interval of log(second / first), for times of the same steps. What makes a step long in both cancels."""
    return interval(numpy.log(second) - numpy.log(first), confidence)


def times_verdict(found, options):
    """Returns the verdict on the second series. It is slower if the whole interval is above options.least percent, and equal if
    the interval also excludes differences of options.resolution percent. So noise gives no verdict of equal."""
    least, resolution = (math.log1p(percent / 100) for percent in (options.least, options.resolution))
    if found.low > least:
        return SLOWER
    if found.high < -least:
        return FASTER
    return EQUAL if -resolution < found.low and found.high < resolution else UNDECIDED


def losses_verdict(found, resolution):
    """Returns the verdict on the losses of a second group, whose interval is `found`. They are equal if differences of `resolution` are
    excluded, and worse if the whole interval is above 0."""
    if -resolution < found.low and found.high < resolution:
        return EQUAL
    return WORSE if found.low > 0 else BETTER if found.high < 0 else UNDECIDED


def most_important(verdicts):
    """Returns the verdict that scripts must know of first."""
    return next((verdict for verdict in (DIFFERENT, WORSE, SLOWER, UNDECIDED, BETTER, FASTER) if verdict in verdicts), EQUAL)


def interval_text(found, confidence=CONFIDENCE, of="interval"):
    """Returns the interval of a logarithm of a ratio as percent."""
    percent = [f"{100 * math.expm1(value):+.2f}" for value in found]
    return f"{percent[0]} % ({100 * confidence:g} % {of}: {percent[1]} to {percent[2]} %)"
