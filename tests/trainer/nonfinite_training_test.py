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


if __name__ == "__main__":
    unittest.main()
