# SPDX-License-Identifier: MIT
"""The predicted gain of two models beside the measured one: each is rewritten as the advice says, and both versions are timed."""
import os
import sys
import unittest
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

warnings.simplefilter("ignore")
TURNS = 3
WITHIN = 3  # times more or less than measured: other programs use the machine, and a level is not the operator of PyTorch
LEAST_GAIN = 0.25  # share of the model by which its other version is faster, so that the bound says something
PROGRAMS = ("tools/explain/op_facts", "tools/bench/kernels/bench_kernels")


class GainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Where other programs use the cores, a small product with two threads waits for the slower one up to 200 times as long as it computes."""
        torch.set_num_threads(1)

    def grouping(self, name, model, *inputs):
        return grouped(Graph(models.save(os.path.join(os.environ["TEST_TMPDIR"], f"{name}.pt2"), model, *inputs)))

    def predicted(self, grouping):
        facts = torch_work.Facts(PROGRAMS[0])
        rows = list(torch_prediction.rows_by_roofline(grouping, facts, {"fp32": torch_times.measured_roofline("fp32")}, True))
        rows = torch_prediction.measured_rows(rows, lambda group: torch_times.Part(grouping.graph, group.nodes).seconds(True),
                                              lambda groups: torch_times.level_times(PROGRAMS[1], groups, True), TURNS)  # fmt: skip
        for row in rows:
            print(f"{row.group.op} {row.group.shape}: seconds now {row.now}, levels {row.levels}", flush=True)
        return sum(row.gain for row in rows)

    def measured(self, grouping, other):
        """Returns the least seconds of both graphs, whose runs take turns."""
        parts = [torch_times.Part(each.graph, each.graph.nodes) for each in (grouping, other)]
        turns = [[part.seconds(True) for part in parts] for _ in range(2 * TURNS)]
        return [min(times) for times in zip(*turns)]

    def compare(self, model, better, *inputs):
        grouping, other = self.grouping("model", model, *inputs), self.grouping("better", better, *inputs)
        before, after = self.measured(grouping, other)
        predicted, gain = self.predicted(grouping), before - after
        words = f"{1e3 * before:.2f} ms and {1e3 * after:.2f} ms; predicted gain {1e3 * predicted:.2f} ms"
        print(f"{self.id()}: {words}")
        self.assertGreater(gain, LEAST_GAIN * before, words)
        self.assertTrue(gain / WITHIN < predicted < gain * WITHIN, words)
        self.assertLess(predicted, before, words)

    def test_attention_with_scores_in_memory(self):
        shapes = {"width": 64, "heads": 8}
        self.compare(models.Attention(models.lower(512), **shapes), models.Attention(None, **shapes, joined=True), torch.rand(2, 512, 64))

    def test_an_activation_by_hand(self):
        def mlp(activation):
            return nn.Sequential(nn.Linear(64, 1024), activation, nn.Linear(1024, 64))

        self.compare(mlp(models.NewGelu()), mlp(nn.GELU(approximate="tanh")), torch.rand(1024, 64))

    def test_an_mlp_with_nothing_to_gain(self):
        """Its products run at the best level already, so less than a third may be predicted, even where other programs disturb."""
        grouping = self.grouping("mlp", nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256)), torch.rand(512, 256))
        whole, _ = self.measured(grouping, grouping)
        self.assertLess(self.predicted(grouping), whole / 3)


if __name__ == "__main__":
    unittest.main()
