# SPDX-License-Identifier: MIT
"""A host that gives its ranks too little memory (ulimit -v): the run ends with 6 on all ranks and says what was asked for."""

import unittest

from training_runs import TrainingRuns

LIMIT = 5 << 20  # KiB: programs and libraries take half of it
# The logits of 16 sequences take 7.7 GB, the weights 80 MB.
LARGE = "model={type: transformer, family: gpt2, layers: 1, width: 2, heads: 1, sequence: 12, vocabulary: 10000000}"


class LittleMemoryTest(TrainingRuns):
    def test_a_limit_of_the_address_space(self):
        for ranks in (1, 2):
            run = "on-%d" % ranks
            self.train(run, LARGE, "micro_batch=16", "evaluation.every=0", ranks=ranks, batch=16 * ranks, device="cpu",
                       under=["sh", "-c", 'ulimit -v %d; exec "$0" "$@"' % LIMIT], expect=6)
            self.assertIn("the host has no memory left: you tried to allocate ", self.errors)
            self.assertEqual((self.error(run)["code"], self.error(run)["step"]), (6, 1))


if __name__ == "__main__":
    unittest.main()
