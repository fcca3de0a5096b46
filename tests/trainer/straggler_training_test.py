# SPDX-License-Identifier: MIT
"""A rank that is slow in each step is named: on the console and in metrics.jsonl, and nobody else is."""

import unittest

from training_runs import DEVICE, TrainingRuns


class StragglerTrainingTest(TrainingRuns):
    def test_the_slow_rank_is_named_within_20_steps(self):
        phase = "data" if DEVICE == "cpu" else "between steps"
        for ranks, slow in ((2, 0), (2, 1), (3, 1)):
            if ranks not in self.some_ranks(2, 3):
                continue
            run = "slow-%d-of-%d" % (slow, ranks)
            self.train(run, "fault={at: step 5 rank %d, kind: slow}" % slow, "steps=26", "evaluation.every=0", ranks=ranks, batch=8 * ranks,
                       environment={"STRATA_FAULTS": "1"})
            named = [line for line in self.lines(run) if "straggler" in line]
            self.assertEqual({line["straggler"]["rank"] for line in named}, {slow})
            self.assertLessEqual(named[0]["step"], 5 + 20)
            self.assertEqual(named[0]["straggler"]["phase"], phase)
            self.assertGreater(named[0]["straggler"]["milliseconds"], 50)
            self.assertGreater(named[0]["straggler"]["ratio"], 1.05)
            self.assertRegex(self.errors, r"warning: rank %d delays the others: its own work takes \d+ ms longer .*\(most of it: %s\)" % (slow, phase))


if __name__ == "__main__":
    unittest.main()
