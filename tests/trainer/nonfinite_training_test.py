# SPDX-License-Identifier: MIT
"""What is not finite ends a run or skips an update: also a loss with finite gradients, and not for ever."""

import unittest

from training_runs import TrainingRuns

FAULTS = {"STRATA_FAULTS": "1"}


class NonfiniteTrainingTest(TrainingRuns):
    def skipped(self, run):
        return [line["step"] for line in self.lines(run) if line.get("skipped")]

    def test_a_loss_that_is_not_finite_counts_though_the_gradients_are(self):
        loss = "fault={at: step 3 rank 1, do: nan_loss}"
        self.train("stop", loss, environment=FAULTS, expect=5)
        self.assertEqual((self.error("stop")["code"], self.error("stop")["step"]), (5, 3))
        self.assertRegex(self.error("stop")["message"], "step 3: the loss is -?nan, though every gradient is finite; the update was left out")
        self.train("skip", loss, "run.on_nonfinite=skip", environment=FAULTS)
        self.assertEqual(self.skipped("skip"), [3])
        self.assertEqual([step for step, value in enumerate(self.losses("skip"), 1) if value is None], [3])

    def test_skipping_ends_when_nothing_is_learnt_any_more(self):
        self.train("forever", "fault={at: step 3 rank 1, do: nan_weights}", "run.on_nonfinite=skip", "steps=200", "evaluation.every=0", "checkpoint.every=50",
                   environment=FAULTS, expect=5)
        self.assertEqual(self.skipped("forever"), list(range(4, 104)))
        self.assertIn("step 103: the last 100 updates were all skipped", self.error("forever")["message"])

    def test_a_gradient_that_is_a_thousand_times_as_large_is_named_at_its_step(self):
        self.train("spike", "fault={at: step 21 rank 1, do: scale_gradient}", "steps=30", "evaluation.every=0", environment=FAULTS)
        spikes = [line for line in self.lines("spike") if "spike" in line]
        self.assertEqual([(line["step"], line["spike"]["what"]) for line in spikes], [(21, "gradient norm")])
        self.assertGreater(spikes[0]["spike"]["value"], 100 * spikes[0]["spike"]["usual"])
        self.assertIn("warning: step 21: the gradient norm is", self.errors)


if __name__ == "__main__":
    unittest.main()
