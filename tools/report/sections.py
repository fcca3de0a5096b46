# SPDX-License-Identifier: MIT
"""The sections of the page. A section without data is one line that says how to get them."""
import collections
import math
import shlex

import curves
from checked_values import is_finite
from markup import absent, details, escaped, figure, paragraph, preformatted, section, shown, table
from profile_section import profile_tables
from samples import sample_section

RECORDS = ("weights_sha256", "save", "checkpoint")  # what a run does without a fault


def each(runs, section_of_run):
    """Returns section_of_run(run) for each run, below the names of the runs if there are several."""
    if len(runs) == 1:
        return section_of_run(runs[0])
    return "".join(f"<h3>{escaped(run.name)}</h3>\n{section_of_run(run)}" for run in runs)


def value_of(run, key):
    return run.configuration.get(key, ("", ""))[0]


def median(column):
    values = sorted(value for value in column if not math.isnan(value))
    return values[len(values) // 2] if values else math.nan


def number(value, digits=6):
    return "not finite" if math.isnan(value) else f"{value:.{digits}g}"


def state(run):
    """Returns how the run ended, as its folder says."""
    if run.errors and run.errors[-1][0] == "error.json":
        return f"failed with exit code {shown(run.errors[-1][1].get('code', '?'))}"
    return "all steps are done" if str(run.last_step()) == value_of(run, "steps") else "not at its last step"


def summary(runs):
    def row(run):
        steps, rate = run.steps, run.steps.rate()
        usual = median(steps.columns[rate]) if rate else math.nan
        losses = [(values["validation_loss"], step) for step, values in run.evaluations.items()]
        best = min((each_loss for each_loss in losses if is_finite(each_loss[0])), default=None)
        return [run.name, f"{run.last_step()} of {value_of(run, 'steps') or '?'}",
                number(steps.columns["loss"][-1], 7) if steps.steps else "", f"{number(best[0], 7)} after step {best[1]}" if best else "",
                "" if math.isnan(usual) else f"{usual:,.0f} {rate.replace('_per_second', '/s')}", state(run)]  # fmt: skip

    return table(["run", "steps", "last loss", "best validation loss", "median rate", "state"], map(row, runs)) + "".join(
        paragraph(f"{run.name}: {note}") for run in runs for note in notes(run))


def notes(run):
    replaced = run.steps.replaced
    more = [f"{replaced} steps of metrics.jsonl were trained again after a resume; the page shows the last time."] if replaced else []
    hidden = len(run.notes) - 3
    return more + run.notes[:3] + ([f"So are {hidden} more lines."] if hidden > 0 else [])


def curve_section(charts, width):
    if not charts:
        return absent("No step was recorded. `tools/strata train` writes metrics.jsonl.")
    text = "Each point is one step." if width == 1 else (
        f"Each point is {width} steps: the line is their mean, and a bar goes from the lowest to the highest value, so that spikes of one step show.")
    return paragraph(text) + '<div class="charts">' + "".join(figure(chart["id"], chart["title"]) for chart in charts) + "</div>\n"


def phase_means(run):
    """Returns {phase: mean milliseconds of the steps after the first}, and "step" with the mean of the whole steps."""
    steps = run.steps
    if len(steps.steps) < 2 or not steps.phases():
        return {}
    columns = {**{phase: steps.columns["phases", phase] for phase in steps.phases()}, "step": steps.columns.get("milliseconds", ())}
    return {name: curves.mean((value for value in column[1:] if not math.isnan(value)), len(steps.steps) - 1) for name, column in columns.items()}


def phase_section(runs, charts):
    means = [phase_means(run) for run in runs]
    names = list(dict.fromkeys(name for each_means in means for name in sorted(each_means, key="step".__eq__)))
    text = '<div class="charts">' + "".join(figure(chart["id"], chart["title"]) for chart in charts) + "</div>\n" if charts else ""
    if names:
        def cell(mean, name):
            return f"{mean[name]:.2f}  {100 * mean[name] / mean['step']:5.1f} %" if name in mean and mean["step"] else ""

        text += paragraph("Milliseconds of a step on rank 0, and their share. They are means of all steps but the first.")
        rows = [(name, *(cell(mean, name) for mean in means)) for name in names]
        text += table(["phase", *(run.name for run in runs)], rows, range(1, len(runs) + 1))
    else:
        text += absent("No phases: a run on CPUs records them. On GPUs the host's clock says nothing about them, and `profile.steps=10-20` measures "
                       "steps.")  # fmt: skip
    profiles = [profile_tables(run) + (details(f"Profile of {run.name}, rank 0", preformatted(run.profile)) if run.profile else "") for run in runs]
    return text + ("".join(profiles) or absent("No profile: train with `profile.steps=10-20` to see every op and kernel of these steps."))


def memory_section(runs, chart):
    text = paragraph("On GPUs the curve is the most that tensors have taken at once. On CPUs it is the resident set of the process, which also holds "
                     "LibTorch. A prediction counts tensors alone.")  # fmt: skip
    text += figure(chart["id"], chart["title"]) if chart else absent("No step was recorded.")

    def section_of_run(run):
        if not run.memory:
            path = shlex.quote(run.path("resolved.yaml"))
            return absent(f"No prediction: the run has no memory.txt. `tools/strata validate {path}` prints it.")
        column = run.steps.columns.get("memory_bytes", ())
        most = max((value for value in column if not math.isnan(value)), default=None)
        rows = [*run.memory, *([("measured, at most", most)] if most is not None else [])]
        return table(["predicted for a rank", "bytes", "MiB"], [(name, f"{count:,.0f}", f"{count / (1 << 20):,.2f}") for name, count in rows], (1, 2))

    return text + each(runs, section_of_run)


def evaluation_section(runs, chart):
    if not any(run.evaluations for run in runs):
        return absent("No evaluation was recorded. `evaluation.every=200` evaluates each 200 steps; a run evaluates after its last step too.")

    def section_of_run(run):
        names = list(dict.fromkeys(name for values in run.evaluations.values() for name in values))
        rows = [[step, *(shown(values[name]) if name in values else "" for name in names)] for step, values in sorted(run.evaluations.items())]
        text = table(["step", *names], rows, range(len(names) + 1)) if rows else absent("No evaluation was recorded.")
        return text + sample_section(run, len(runs))

    return (figure(chart["id"], chart["title"]) if chart else "") + each(runs, section_of_run)


def fault_section(runs):
    def section_of_run(run):
        text = start_table(run)
        for name, error in run.errors:
            text += f'<div class="failure">{table([name, ""], [(key, shown(value)) for key, value in error.items() if value != ""])}</div>\n'
        faults = [event for event in run.events if event[1] not in RECORDS]
        counts = collections.Counter(kind for _, kind, _ in faults)
        if faults:
            text += paragraph("Faults: " + ", ".join(f"{kind} {count}" for kind, count in counts.items()) + ".")
            text += table(["step", "what", "more"], [(step, kind, shown(value)) for step, kind, value in faults], (0,))
        elif not run.errors:
            text += paragraph("No fault was recorded.")
        saves = [(step, value) for step, kind, value in run.events if kind == "save" and isinstance(value, dict)]
        if saves:
            rows = [(step, *(shown(value.get(name)) for name in ("milliseconds", "waited_milliseconds"))) for step, value in saves]
            text += details(f"{len(saves)} saves", table(["step", "training stood still, ms", "waited for the save before, ms"], rows, (0, 1, 2)))
        return text

    return each(runs, section_of_run)


def start_table(run):
    """Returns a table of the starts: the first, those from a checkpoint, and those for which the ledger has new facts."""
    if not run.starts and not run.resumes:
        return absent("No starts: the run has no ledger/rank-0, which `tools/strata train` writes.")
    rows = []
    for step in sorted({after for after, _ in run.starts} | set(run.resumes)):
        facts = next((facts for after, facts in reversed(run.starts) if after <= step), {})
        rows.append((len(rows) + 1, step + 1, facts.get("ranks", ""), facts.get("device", "")))
    return table(["start", "first step", "ranks", "device"], rows, (0, 1, 2))


def configuration_section(runs):
    def section_of_run(run):
        if not run.configuration:
            return absent("No configuration: the run has no resolved.yaml.")
        rows = [(key, value, origin) for key, (value, origin) in run.configuration.items()]
        given = [row for row in rows if row[2] != "default"]
        head = ["key", "value", "origin"]
        return table(head, given, most=None) + details(f"All {len(rows)} values", table(head, rows, most=None))

    if len(runs) == 1:
        return section_of_run(runs[0])
    keys = list(dict.fromkeys(key for run in runs for key in run.configuration))
    rows = [[key, *(run.configuration.get(key, ("not there", ""))[0] for run in runs)] for key in keys]
    different = [row for row in rows if len(set(row[1:])) > 1]
    text = table(["key", *(run.name for run in runs)], different, most=None) if different else paragraph("All values are equal.")
    return text + paragraph(f"{len(rows) - len(different)} values are equal.") + details("The values of each run", each(runs, section_of_run))


def environment_section(runs):
    def section_of_run(run):
        if run.starts:
            names = list(dict.fromkeys(name for _, facts in run.starts for name in facts))
            rows = [[name, *(facts.get(name, "") for _, facts in run.starts)] for name in names]
            text = table(["", *(f"from step {step + 1}" for step, _ in run.starts)], rows)
        else:
            text = absent("No environment: the run has no ledger/rank-0, which `tools/strata train` writes.")
        if run.kernels:
            return text + details("Levels of the ops", preformatted(run.kernels))
        return text + absent("No levels: the run has no kernels.txt.")

    return each(runs, section_of_run)


def all_of(runs):
    """Returns (the charts, the sections as (identity, title, HTML)), and how many steps a point of a curve has."""
    width, step_charts = curves.charts_of(runs)
    phases = [chart for chart in (curves.phase_chart(i, run, width) for i, run in enumerate(runs)) if chart]
    memory, evaluations = curves.memory_chart(runs, width), curves.evaluation_chart(runs)
    sections = [
        ("runs", "Runs" if len(runs) > 1 else "Run", summary(runs)),
        ("curves", "Curves", curve_section(step_charts, width)),
        ("phases", "Phases of a step", phase_section(runs, phases)),
        ("memory-use", "Memory", memory_section(runs, memory)),
        ("evaluations", "Evaluations", evaluation_section(runs, evaluations)),
        ("faults", "Restarts and faults", fault_section(runs)),
        ("configuration", "Configuration", configuration_section(runs)),
        ("environment", "Environment", environment_section(runs)),
    ]
    charts = [*step_charts, *phases, *(chart for chart in (memory, evaluations) if chart)]
    return charts, width, [(identity, title, section(identity, title, content)) for identity, title, content in sections]
