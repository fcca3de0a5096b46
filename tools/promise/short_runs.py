# SPDX-License-Identifier: MIT
"""Real steps of few layers and micro-batches, which tell what a step takes besides its ops: autograd, casts, views, sums of gradients,
gaps between kernels, and communication that nothing hides.

Of L layers and M micro-batches it takes a + b L + M (c + d L): the first layer, the last one, embedding and loss are in a and c, and all
layers between them are alike. Four short runs tell the four numbers."""
import hashlib
import statistics

from checked_values import is_finite
from links import Links
from prices import Prices, calls_in, op_parts

LAYERS, MICRO_BATCHES = (3, 6), (1, 2)  # 3: the first, the last and one between them
REMAINDERS = ("forward", "backward", "optimizer", "data", "exposed", "sent", "watts")
ONCE = ("optimizer",)  # of a step, whatever the number of micro-batches


def short_runs(facts, ranks):
    """The keys of each short run of the same ops, with the ranks of this machine."""
    samples = facts["samples_per_round"] * ranks // facts["ranks"]
    runs = []
    for layers in sorted({min(count, facts["layers"]) for count in LAYERS}):
        for micro_batches in sorted({min(count, facts["micro_batches"]) for count in MICRO_BATCHES}):
            keys = [f"run.ranks={ranks}"]
            if layers < facts["layers"]:
                keys.append(f"model.layers={layers}")
            if facts["samples_per_round"] > 1 or facts["micro_batches"] > 1 or facts["ranks"] != ranks:
                keys.append(f"batch={max(samples * micro_batches, 1)}")
            runs.append(keys)
    return runs


def ops_hash(facts):
    """Names the ops of a forward and the settings of a run, whatever the number of layers, so that steps of fewer layers stand for it."""
    names = sorted({str([op[name] for name in ("op", "shape", "level", "dtype", "input_gradient")]) for op in facts["ops"] if op["part"] == "forward"})
    return hashlib.sha256("\n".join([*names, *facts["ops_without_times"], facts["settings"]]).encode()).hexdigest()[:16]


def exchange_of(facts):
    """Names the collectives of a step: sharded and replicated parameters, for example, hide their communication differently."""
    return ", ".join(sorted({f"{call['part']} {call['operation']}" for call in facts["collectives"] if call["part"] != "evaluation"}))


def recomputed_share(facts):
    """How many ops the backward computes again, for each op of the forward. They have as much between them."""
    return calls_in(facts, "recomputation") / max(calls_in(facts, "forward"), 1)


def spans_of(steps):
    """Seconds of the phases of a step: shares of profiled steps, of the median of steps without a profiler. A profile that could not tell the
    phases of a captured step apart has only the step and its exposed communication. None if there was no profile."""
    whole = steps.get("breakdown")
    if not isinstance(whole, dict) or not whole.get("step") or not steps.get("milliseconds"):
        return None
    if "difference" in whole:
        whole = {name: whole[name] for name in ("step", "exposed_communication")}
    return {name: 1e-3 * steps["milliseconds"] * value / whole["step"] for name, value in whole.items() if is_finite(value)}


def key_of_run(facts):
    return {"ops": ops_hash(facts), "exchange": exchange_of(facts), "layers": facts["layers"], "micro_batches": facts["micro_batches"]}


def remainder(facts, spans, file, condition):
    """Seconds of a step besides its ops, or None if an op has no time."""
    parts, missing = op_parts(facts, Prices(file, *condition))
    if missing:
        return None
    forward_ops, backward_ops, update = (parts[name][1] for name in ("forward ops", "backward ops", "optimizer"))
    backward_ops += parts["recomputation"][1]
    if "forward" in spans:
        # A GPU is idle while it waits for the next kernel, so this time grows with the number of ops. A CPU never counts as idle.
        passes = spans["forward"] + spans["backward"]
        longer = 1 + spans["idle"] / passes if passes else 1
        forward, backward = longer * spans["forward"] - forward_ops, longer * spans["backward"] - backward_ops
        update, data = spans["optimizer"] - update, spans["other"]
    else:  # as much of the rest for a second of each pass
        rest = spans["step"] - spans["exposed_communication"] - forward_ops - backward_ops - update
        forward = rest * forward_ops / max(forward_ops + backward_ops, 1e-12)
        backward, update, data = rest - forward, 0, 0
    backward -= forward * recomputed_share(facts)
    exposed = sent = None
    if condition[0] > 1:
        links = Links(file.rows_of_kind("collective", *condition), condition[0])
        calls = [call for call in facts["collectives"] if call["part"] != "evaluation" and links.has(call["operation"])]
        sent = sum(call["calls"] * links.seconds(call["operation"], call["bytes"], call["ranks"])[1] for call in calls) or None
        exposed = spans["exposed_communication"] if sent else None
    return {"forward": forward, "backward": backward, "optimizer": update, "data": data, "exposed": exposed, "sent": sent}


def rows_of(measured, file, condition):
    """The rows for the file. `measured` has the facts of each short run and the line of bench step about it; runs of the same facts, which
    were measured in turn with others, are one row."""
    same = {}
    for facts, steps in measured:
        spans = spans_of(steps)
        seconds = spans and remainder(facts, spans, file, condition)
        if seconds:
            same.setdefault(tuple(key_of_run(facts).items()), []).append({**seconds, "watts": steps.get("watts") or None})
    rows = []
    for key, times in same.items():
        means = {name: None if times[0][name] is None else [statistics.mean(time[name] for time in times)] * 3 for name in REMAINDERS}
        rows.append({"kind": "outside", "ranks": condition[0], "threads": condition[1], **dict(key), **means})
    return rows


def value_on_line(points, place, grows):
    """The value at `place` of the line through the first and the last of {place: value}. One point alone gives a value that grows with
    the place, or the same for all."""
    low, high = min(points), max(points)
    if low == high:
        return points[low] * place / low if grows else points[low]
    return points[low] + (points[high] - points[low]) * (place - low) / (high - low)


class Remainders:
    """What a step takes besides its ops, from the rows of the short runs of its ops."""

    def __init__(self, rows, facts):
        own = set(exchange_of(facts).split(", ")) | {""}
        fitting = [row for row in rows if row["ops"] == ops_hash(facts) and own >= set(row["exchange"].split(", "))]
        # With more ranks a run may have more collectives than were measured, and those that are most like it count.
        nearest = max((row["exchange"] for row in fitting), key=len, default=None)
        self.rows = [row for row in fitting if row["exchange"] == nearest]

    def __bool__(self):
        return bool(self.rows)

    def watts(self):
        """The power in the longest step, or None."""
        longest = max(self.rows, key=lambda row: (row["layers"], row["micro_batches"]), default=None)
        return longest and longest["watts"] and longest["watts"][1]

    def seconds(self, name, layers, micro_batches):
        """Seconds of a step with this number of layers and of micro-batches, or None if it was not measured."""
        by_micro_batches = {}
        for row in self.rows:
            if row[name] is None:
                return None
            by_micro_batches.setdefault(row["micro_batches"], {})[row["layers"]] = row[name][1]
        # One number of layers tells no line through the layers, so it counts only where there is no more.
        lines = {count: layer_times for count, layer_times in by_micro_batches.items() if len(layer_times) > 1} or by_micro_batches
        points = {count: value_on_line(layer_times, layers, grows=True) for count, layer_times in lines.items()}
        return value_on_line(points, micro_batches, grows=name not in ONCE)
