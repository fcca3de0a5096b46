# SPDX-License-Identifier: MIT
"""A stop request during a long evaluation: the run saves and ends at once, and the resumed run makes up for the
evaluation."""

import os
import signal
import time
import unittest

from training_runs import TrainingRuns, rank_processes, write_tokens


class StopInEvaluationTest(TrainingRuns):
    def stop_in_the_evaluation_after(self, step, *overrides):
        process = self.start("run", *overrides)
        self.wait_for(process, "run", lambda: any(line["step"] == step and "loss" in line for line in self.lines("run")))
        time.sleep(0.5)  # only the evaluation can hear the request, because it follows the line of the step
        os.kill(rank_processes(process.pid)[1], signal.SIGUSR1)  # one rank is asked, and all stop
        output, errors = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 75, output + errors)
        self.assertIn("asked to stop: the evaluation after step %d is left" % step, output)
        self.assertTrue(os.path.exists(self.path("run", "checkpoints/step-%08d" % step)))

    def evaluated(self):
        return [line["step"] for line in self.lines("run") if "validation_loss" in line]

    def test_the_run_saves_and_leaves_and_the_evaluation_is_made_up_for(self):
        # 600000 tokens are 25000 rounds of micro-batches on each of two ranks, which take longer than this test waits.
        write_tokens(self.data + "/validation.bin", [(i * i + 7 * (i // 5)) % 37 for i in range(600000)])
        run = ["steps=4", "micro_batch=1", "run.threads=1"]
        self.stop_in_the_evaluation_after(2, *run, "evaluation={every: 2, tokens: 0}")
        self.assertEqual(self.evaluated(), [])
        self.stop_in_the_evaluation_after(4, *run, "evaluation={every: 2, tokens: 240}")
        self.assertEqual(self.evaluated(), [2])


if __name__ == "__main__":
    unittest.main()
