# SPDX-License-Identifier: MIT
"""The curves of the page. Many steps become few buckets of equal width: a bucket has the lowest, the mean and the
highest value of its steps, so that a spike of one step stays visible."""
import math

from checked_values import is_finite

MOST_BUCKETS = 2400  # of all runs together: more than a screen has columns, and 1 MB of numbers for ten curves
DIGITS = 7           # a float32 number has no more

CURVES = [  # column, title, unit, whether the scale begins logarithmic
    ("loss", "Loss", "", False),
    ("gradient_norm", "Gradient norm", "before clipping", True),
    ("learning_rate", "Learning rate", "", False),
    ("rate", "", "", False),  # of tokens, images, nodes or graphs
    ("milliseconds", "Time of a step", "ms", True),
    ("model_teraflops_per_rank", "Model TFLOP/s of a rank", "", False),
    ("loss_scale", "Loss scale", "", True),
]
GIBIBYTE = 1 << 30


def width_of(runs):
    """Returns how many steps a bucket has, the same for all runs."""
    last = max((run.steps.steps[-1] for run in runs if run.steps.steps), default=1)
    first = min((run.steps.steps[0] for run in runs if run.steps.steps), default=1)
    most = max(MOST_BUCKETS // max(len(runs), 1), 100)
    return max(1, math.ceil((last - first + 1) / most))


def rounded(value):
    return float(f"{value:.{DIGITS}g}")


def buckets(steps, values, width, scale=1.0):
    """Yields (first step of the bucket, its value). A value is one number if all steps are equal, otherwise [lowest, mean, highest],
    and None if no step is finite. Step 1 begins the first bucket."""
    begin = 0
    while begin < len(steps):
        number = (steps[begin] - 1) // width
        end = begin + 1
        while end < len(steps) and (steps[end] - 1) // width == number:
            end += 1
        finite = [value * scale for value in values[begin:end] if not math.isnan(value)]
        yield number * width + 1, low_mean_high(finite)
        begin = end


def low_mean_high(values):
    if not values:
        return None
    low, high = rounded(min(values)), rounded(max(values))
    return low if low == high else [low, rounded(mean(values, len(values))), high]


def mean(values, count):
    """Divides before it adds, so that the sum of large values is finite."""
    return math.fsum(value / count for value in values)


def rows(series):
    """Joins the series of several runs: [x, value of the first run, ...], with None where a run has no such x."""
    columns = [dict(each) for each in series]
    return [[x, *(column.get(x) for column in columns)] for x in sorted(set().union(*columns))]


def chart(identity, title, runs, series, unit="", **more):
    """Returns a chart of the runs that have something to show; None if no run has."""
    shown = [i for i, each in enumerate(series) if any(value is not None for _, value in each)]
    if not shown:
        return None
    return {"id": identity, "title": title, "unit": unit, "runs": shown, "rows": rows([series[i] for i in shown]), **more}


def charts_of(runs):
    """Returns (width of a bucket, the charts of steps)."""
    width = width_of(runs)
    found = []
    for column, title, unit, logarithmic in CURVES:
        names = [run.steps.rate() if column == "rate" else column for run in runs]
        if column == "rate":
            title = ", ".join(sorted({name.replace("_per_second", "/s") for name in names if name})).capitalize()
        series = [list(buckets(run.steps.steps, run.steps.columns.get(name, ()), width)) for run, name in zip(runs, names)]
        found.append(chart(column, title, runs, series, unit, log=logarithmic))
    return width, [each for each in found if each]


def memory_chart(runs, width):
    series = [list(buckets(run.steps.steps, run.steps.columns.get("memory_bytes", ()), width, 1 / GIBIBYTE)) for run in runs]
    return chart("memory", "Memory of rank 0", runs, series, "GiB", log=False)


def evaluation_chart(runs):
    series = [[(step, rounded(values["validation_loss"]) if is_finite(values["validation_loss"]) else None)
               for step, values in sorted(run.evaluations.items())] for run in runs]  # fmt: skip
    return chart("validation_loss", "Validation loss", runs, series, log=False, points=True)


def phase_chart(number, run, width):
    """Returns the mean times of the phases of one run, to be stacked; None if it has none."""
    phases = run.steps.phases()
    if not phases:
        return None
    phase_buckets = [buckets(run.steps.steps, run.steps.columns["phases", phase], width) for phase in phases]
    series = [[(x, value[1] if isinstance(value, list) else value) for x, value in found] for found in phase_buckets]
    return {"id": f"phases-{number}", "title": f"Phases of {run.name}", "unit": "ms", "runs": [number], "rows": rows(series), "stack": phases,
            "log": False}  # fmt: skip
