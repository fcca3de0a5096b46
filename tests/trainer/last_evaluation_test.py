# SPDX-License-Identifier: MIT
"""The evaluation after the last step: evaluation.final_tokens bounds it, and the table of phases has its time."""

import re
import unittest

from training_runs import TrainingRuns, write_tokens


class LastEvaluationTest(TrainingRuns):
    def evaluated(self, run):
        return [(line["step"], line["validation_tokens"]) for line in self.lines(run) if "validation_tokens" in line]

    def test_it_is_bounded(self):
        # 1000 validation tokens have 83 samples of 12 tokens.
        for run, key, said, tokens in (("all", [], "all 83", 996), ("some", ["evaluation.final_tokens=120"], "10 of 83", 120),
                                       ("more", ["evaluation.final_tokens=5000"], "all 83", 996)):
            self.train(run, "steps=4", "evaluation={every: 2, tokens: 240}", *key)
            self.assertIn("\nevaluating %s validation samples after the last step\n" % said, self.output)
            self.assertEqual(self.evaluated(run), [(2, 240), (4, tokens)])
        self.assertEqual(self.hashes("some"), self.hashes("all"))

    def test_its_time_is_in_the_table(self):
        write_tokens(self.data + "/validation.bin", [(i * i + 7 * (i // 5)) % 37 for i in range(60000)])
        self.train("timed", "steps=4", "evaluation.every=0", ranks=1, device="cpu")
        share = float(re.search(r"(?m)^evaluation +[\d.]+ +([\d.]+) %$", self.output)[1])
        self.assertGreater(share, 50, self.output)  # 313 micro-batches beside 8 of the steps


if __name__ == "__main__":
    unittest.main()
