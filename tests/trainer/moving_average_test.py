# SPDX-License-Identifier: MIT
"""Checks that the moving average of the weights follows its formula from the first update on, also if an update is
skipped."""

import os
import unittest

import torch
from safetensors.torch import load_file
from training_runs import TrainingRuns

EXPORT = os.path.abspath("tools/weights/export")
STEPS, DECAY = 9, 0.4


class MovingAverageTest(TrainingRuns):
    def exported(self, run, step, *options):
        folder = self.path("%s-%d-%d" % (run, step, len(options)))
        self.run_program(EXPORT, self.path(run), folder, "--step", str(step), *options)
        return load_file(folder + "/model.safetensors")

    def test_formula(self):
        for compute in ("float32", "bfloat16"):
            run = "average_" + compute
            self.train(run, "steps=%d" % STEPS, "optimizer.moving_average=%g" % DECAY, "precision.compute=" + compute, "checkpoint={every: 1, keep: 100}",
                       "run.on_nonfinite=skip", "fault={at: step 7 rank 1, kind: nan}", environment={"STRATA_FAULTS": "1"})
            # The first checkpoint is that of step 1. The weights before it follow from its average.
            weights, average = (self.exported(run, 1, *options) for options in (["--weights", "trained"], []))
            expected = {name: value.double() for name, value in average.items()}
            updates = 1
            for step in range(2, STEPS + 1):
                weights, average = self.exported(run, step, "--weights", "trained"), self.exported(run, step)
                if step != 7:
                    updates += 1
                    decay = min(DECAY, (1 + updates) / (10 + updates))
                    expected = {name: decay * value + (1 - decay) * weights[name].double() for name, value in expected.items()}
                for name, value in expected.items():
                    self.assertLess((average[name] - value).abs().max().item(), 1e-6, (step, name))
            self.assertGreater(max((average[name] - weights[name]).abs().max().item() for name in average), 1e-4)

    def test_begins_at_the_first_weights(self):
        self.train("whole", "steps=1", "schedule={type: constant}", "optimizer.moving_average=0.9")
        self.train("lazy", "steps=1", "schedule={type: constant}", "optimizer={type: adamw, learning_rate: 1e-9, moving_average: 0.9}")
        first = self.exported("lazy", 1)  # exact to a millionth
        weights, average = self.exported("whole", 1, "--weights", "trained"), self.exported("whole", 1)
        for name, value in average.items():
            self.assertTrue(torch.allclose(value, 2 / 11 * first[name] + 9 / 11 * weights[name], rtol=0, atol=1e-6), name)


if __name__ == "__main__":
    unittest.main()
