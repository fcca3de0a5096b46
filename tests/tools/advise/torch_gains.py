# SPDX-License-Identifier: MIT
"""torch_gains.py: predicted gains of models of PyTorch beside measured ones, from models that are rewritten as the advice says.

It is a command of its own, because it measures this machine: `python3 -B tests/tools/advise/torch_gains.py` in a folder with the programs
tools/explain/op_facts and tools/bench/kernels/bench_kernels. Exit code 1 if a prediction is out of bounds."""
import os
import statistics
import sys
import tempfile
import typing
import warnings

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.abspath("tools/advise"), os.path.abspath("tools")]

import torch  # noqa: E402
from torch import nn  # noqa: E402

import torch_models as models  # noqa: E402
import torch_prediction  # noqa: E402
import torch_times  # noqa: E402
import torch_work  # noqa: E402
from torch_graph import Graph  # noqa: E402
from torch_groups import grouped  # noqa: E402

TURNS = 3
WITHIN = 3  # times more or less than measured: other programs use the machine, and a level is not the operator of PyTorch
LEAST_GAIN = 0.25  # share of the model by which its other version is faster, so that the bound says something
PROGRAMS = ("tools/explain/op_facts", "tools/bench/kernels/bench_kernels")


class Gain(typing.NamedTuple):
    """Seconds of the model and of its other version, and by how much that is faster: medians over turns."""
    before: float
    after: float
    measured: float
    predicted: float

    @property
    def holds(self):
        return self.measured > LEAST_GAIN * self.before and self.measured / WITHIN < self.predicted < min(self.before, WITHIN * self.measured)

    def __str__(self):
        times = ", ".join(f"{name} {1e3 * getattr(self, name):.2f} ms" for name in self._fields)
        return f"{times}: {'within' if self.holds else 'out of'} bounds"


def mlp(activation):
    return nn.Sequential(nn.Linear(64, 1024), activation, nn.Linear(1024, 64))


def activation_by_hand():
    return compared(mlp(models.NewGelu()), mlp(nn.GELU(approximate="tanh")), torch.rand(1024, 64))


def attention_by_hand():
    shapes = {"width": 64, "heads": 8}
    return compared(models.Attention(models.lower(512), **shapes), models.Attention(None, **shapes, joined=True), torch.rand(2, 512, 64))


def nothing_by_hand():
    """Returns (predicted gain, seconds) of an MLP whose products are ops already. Less than a third of it may be predicted."""
    model = nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256))
    predicted, (whole,) = measured(grouping_of(model, torch.rand(512, 256)))
    return predicted, statistics.median(whole)


def grouping_of(model, *inputs):
    with tempfile.TemporaryDirectory() as folder:
        return grouped(Graph(models.save(os.path.join(folder, "model.pt2"), model, *inputs)))


def measured(*groupings):
    """Returns the predicted gain of the first grouping, and the seconds of the graph of each in each turn. Everything is timed in each turn,
    because the load of the machine changes between turns."""
    # Where other programs use the cores, a small product with two threads waits for the slower one up to 200 times as long as it computes.
    torch.set_num_threads(1)
    first, wholes = groupings[0], []
    parts = [torch_times.Part(each.graph, each.graph.nodes) for each in groupings]

    def levels(groups):
        wholes.append([part.seconds(True) for part in parts])
        return torch_times.level_times(PROGRAMS[1], groups, True)

    rows = list(torch_prediction.rows_by_roofline(first, torch_work.Facts(PROGRAMS[0]), {"fp32": torch_times.measured_roofline("fp32")}, True))
    rows = torch_prediction.measured_rows(rows, lambda group: torch_times.Part(first.graph, group.nodes).seconds(True), levels, TURNS)
    return sum(row.gain for row in rows), list(zip(*wholes))


def compared(model, better, *inputs):
    predicted, (befores, afters) = measured(grouping_of(model, *inputs), grouping_of(better, *inputs))
    gain = statistics.median(before - after for before, after in zip(befores, afters))
    return Gain(statistics.median(befores), statistics.median(afters), gain, predicted)


def main():
    warnings.simplefilter("ignore")
    held = True
    for name, case in (("activation by hand", activation_by_hand), ("attention by hand", attention_by_hand)):
        gain = case()
        held = held and gain.holds
        print(f"{name}: {gain}", flush=True)
    predicted, whole = nothing_by_hand()
    print(f"nothing to gain: {1e3 * whole:.2f} ms, predicted {1e3 * predicted:.2f} ms: {'within' if predicted < whole / 3 else 'out of'} bounds")
    sys.exit(0 if held and predicted < whole / 3 else 1)


if __name__ == "__main__":
    main()
