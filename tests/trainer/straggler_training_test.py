# SPDX-License-Identifier: MIT
"""A rank that is slow in each step is named: on the console and in metrics.jsonl, and nobody else is."""

import random
import unittest

from training_runs import DEVICE, EVERY, TrainingRuns

WITHIN = 20  # steps
# Number of ranks, the slow one, and the first step in which it is slow.
RUNS = [(2, 0, 5), (2, 1, 5), (3, 1, 5)]


def draws(count, seed=20261128):
    """Returns runs whose number of ranks, slow rank and first slow step are drawn, all of them different."""
    number, runs = random.Random(seed), []
    while len(runs) < count:
        ranks = number.randint(2, 4)
        run = (ranks, number.randrange(ranks), number.randint(2, 30))
        if run not in runs:
            runs.append(run)
    return runs


class StragglerTrainingTest(TrainingRuns):
    def test_the_slow_rank_is_named_within_20_steps(self):
        runs = [run for run in (draws(20) if EVERY else RUNS) if run[0] in self.some_ranks(2, 3, 4)]
        self.assertTrue(runs)
        named = sum(self.is_named(*run) for run in runs)
        print("%d of %d slow ranks were named within %d steps" % (named, len(runs), WITHIN))
        self.assertEqual(named, len(runs))

    def is_named(self, ranks, slow, first):
        """Trains, and returns whether the slow rank was named in time. That nobody else is named is expected of each run."""
        phase = "data" if DEVICE == "cpu" else "between steps"
        run = "slow-%d-of-%d-from-%d" % (slow, ranks, first)
        self.train(run, "fault={at: step %d rank %d, kind: slow}" % (first, slow), "steps=%d" % (first + WITHIN + 1), "evaluation.every=0", ranks=ranks,
                   batch=8 * ranks, environment={"STRATA_FAULTS": "1"})
        named = [line for line in self.lines(run) if "straggler" in line]
        if not named or named[0]["step"] > first + WITHIN:
            print("%s: named at step %s" % (run, named[0]["step"] if named else "none"))
            return False
        self.assertEqual({line["straggler"]["rank"] for line in named}, {slow}, run)
        self.assertGreaterEqual(named[0]["step"], first, run)
        self.assertEqual(named[0]["straggler"]["phase"], phase, run)
        self.assertGreater(named[0]["straggler"]["milliseconds"], 50, run)
        self.assertGreater(named[0]["straggler"]["ratio"], 1.05, run)
        self.assertRegex(self.errors, r"warning: rank %d delays the others: its own work takes \d+ ms longer .*\(most of it: %s\)" % (slow, phase))
        return True


if __name__ == "__main__":
    unittest.main()
