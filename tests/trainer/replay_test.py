# SPDX-License-Identifier: MIT
"""Replays steps of runs: equal bit for bit, or the first difference is named. Flipped bits are found to the step, the rank
and the place."""

import os
import re
import subprocess
import unittest

from training_runs import FAMILIES, TrainingRuns, for_families, write_tokens

REPLAY = os.environ.get("STRATA_TEST_REPLAY") or os.path.abspath("tools/replay/replay")
FAULTS = {"STRATA_FAULTS": "1"}
SHORT = ["steps=12", "evaluation.every=0"]  # with checkpoints of steps 5, 10 and 12, of which two are kept


class ReplayTest(TrainingRuns):
    def replay(self, run, *arguments, ranks=2, expect=0, environment=None):
        """Returns the last line of the output, which is the verdict."""
        command = ["mpirun", "-q", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "-n", str(ranks),
                   REPLAY, self.path(run), "run.ranks=%d" % ranks, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **(environment or {})})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.output, self.errors = done.stdout, done.stderr
        return done.stdout.splitlines()[-1] if done.stdout else ""

    @for_families("language", "vision", "graph", "sampled_graph")
    def test_a_replay_gives_the_same_bits(self, family, *overrides):
        for ranks in (1, 2):
            run = "%s_on_%d" % (family, ranks)
            self.train(run, *SHORT, *overrides, ranks=ranks)
            self.assertLess(os.path.getsize(self.path(run, "ledger/rank-%d" % (ranks - 1))), 12 * 64 + 2000)
            self.assertEqual(self.replay(run, "--step", "12", ranks=ranks),
                             "equal: data, loss and gradient norm of steps 11 to 12, and the weights after step 12, bit for bit")
            self.assertIn("replays step 11 to 12, from the checkpoint of step 10", self.output)
            self.assertEqual(self.replay(run, "--step", "7", ranks=ranks),
                             "equal: data, loss and gradient norm of steps 1 to 7, and the weights after step 5, bit for bit")
            self.assertIn("replays step 1 to 7, from the initial weights", self.output)

    def test_a_replay_of_a_run_that_was_killed_and_resumed(self):
        self.train("killed", *SHORT, "fault={at: step 8 rank 1, do: kill}", environment=FAULTS, expect=137)
        with open(self.path("killed", "ledger/rank-1"), "ab") as file:
            file.write(b"torn")  # in the middle of a record
        self.train("killed", *SHORT)
        self.assertEqual(self.replay("killed", "--step", "12", "--from", "0"),
                         "equal: data, loss and gradient norm of steps 1 to 12, and the weights after step 12, bit for bit")

    def test_another_number_of_ranks_agrees_within_rounding(self):
        self.train("language", *SHORT)
        verdict = self.replay("language", "--step", "12", ranks=1)
        self.assertRegex(verdict, "^equal within rounding: data, loss and gradient norm of steps 11 to 12; .*because ranks was 2 and is 1$")
        self.train("graph", *SHORT, *[text.format(data=self.data) for text in FAMILIES["graph"]])
        self.assertRegex(self.replay("graph", "--step", "12", ranks=1), "^equal within rounding: loss and .*the data are not compared")
        # The rates of another optimizer are no rounding. The file stands for a program that computes something else.
        with open(self.path("language", "resolved.yaml"), encoding="utf-8") as file:
            text = file.read()
        with open(self.path("language", "resolved.yaml"), "w", encoding="utf-8") as file:
            file.write(re.sub("learning_rate: [^ ]+", "learning_rate: 2e-2", text))
        self.assertRegex(self.replay("language", "--step", "12", "--from", "0", ranks=1, expect=5),
                         r"^different: step \d+, (loss|gradient norm): was .*rounding explains")

    def test_other_data_are_called_other_data(self):
        self.train("text", *SHORT)
        write_tokens(self.data + "/train.bin", [(i * i + 5 * (i // 3)) % 37 for i in range(6000)])
        self.assertRegex(self.replay("text", "--step", "7", expect=3), "^different: step 1, data, of all ranks: ")
        self.replay("text", "--step", "12", expect=2)
        self.assertIn("the data: was", self.errors)

    def test_steps_that_cannot_be_replayed(self):
        self.train("short", *SHORT)
        self.replay("short", "--step", "13", expect=4)
        self.assertIn("has no step 13; the last that was recorded is 12", self.errors)
        self.replay("short", "--step", "12", "--from", "7", expect=4)
        self.assertIn("no checkpoint of step 7", self.errors)
        self.replay("short", "--step", "5", "--from", "5", expect=2)
        self.replay("short", expect=2)

    def flipped(self, run, fault, *overrides, ranks):
        """Trains with a flipped bit in step 7 and layer 1 of the last rank. Returns the verdict on all steps, and the place."""
        at = "step 7 rank %d layer 1" % (ranks - 1)
        self.train(run, "steps=9", "checkpoint.every=0", "evaluation.every=0", *overrides, "fault={at: %s, do: %s}" % (at, fault),
                   ranks=ranks, environment=FAULTS)
        verdict = self.replay(run, "--step", "9", ranks=ranks, expect=5)
        return verdict, self.replay(run, "--step", "7", "--locate", ranks=ranks, expect=5, environment=FAULTS)

    @for_families("language", "vision", "graph")
    def test_a_flipped_bit_is_found(self, family, *overrides):
        # A branch that stochastic depth drops hides a flip in it.
        overrides += ("model.stochastic_depth=0", "model.dropout=0") if family == "vision" else ()
        for ranks in (1, 2) if family == "language" else (2,):
            last = ranks - 1
            place = "different: step 7, rank %d, " % last
            verdict, found = self.flipped("%s_weight_%d" % (family, ranks), "flip_weight", *overrides, ranks=ranks)
            self.assertRegex(verdict, "^different: step 7, loss, rank")
            self.assertRegex(found, "^" + place + r"weights of group (blocks|layers)\.1: (blocks|layers)\.1\.")
            verdict, found = self.flipped("%s_gradient_%d" % (family, ranks), "flip_gradient", *overrides, ranks=ranks)
            self.assertRegex(verdict, "^different: step 7, gradient norm, rank")
            self.assertRegex(found, "^" + place + r"gradients of group (blocks|layers)\.1: (blocks|layers)\.1\.")
            verdict, found = self.flipped("%s_activation_%d" % (family, ranks), "flip_activation", *overrides, ranks=ranks)
            self.assertRegex(verdict, "^different: step 7, loss, rank")
            if family != "graph":  # its ranks exchange activations in the forward
                self.assertIn("loss, rank %d; the part of rank %d was" % (last, last), verdict)
            self.assertRegex(found, "^" + place + r"layer 1, forward: (branch|residual) that the layer returns \(after layer 1, forward: ")

    @for_families("language", "graph", "many_graphs")
    def test_two_runs_without_a_fault_agree_in_every_op(self, family, *overrides):
        for ranks in (1, 2):
            run = "%s_twice_%d" % (family, ranks)
            self.train(run, "steps=6", *overrides, ranks=ranks)
            self.assertRegex(self.replay(run, "--step", "6", "--locate", ranks=ranks), r"^equal: both runs of step 6 agree in all [1-9]\d+ outputs of rank 0")

    def test_the_first_nan_is_named(self):
        self.train("spoilt", *SHORT, "fault={at: step 3 rank 1, do: nan}", environment=FAULTS, expect=5)
        self.assertRegex(self.replay("spoilt", "--step", "3", "--locate", expect=5, environment=FAULTS), "^different: step 3, rank 1, ")
        self.assertRegex(self.output, "(?m)^the first NaN: step 3, rank 1, ")
        self.assertRegex(self.replay("spoilt", "--step", "3", expect=5), "^different: step 3, gradient norm, rank.* was -?nan ")

    def test_a_fault_of_another_step_is_refused(self):
        self.train("other", "steps=4", "evaluation.every=0", "fault={at: step 2 rank 0 layer 0, do: flip_gradient}", environment=FAULTS)
        self.replay("other", "--step", "4", "--locate", expect=2, environment=FAULTS)
        self.assertIn("fault.at names step 2", self.errors)
        self.replay("other", "--step", "2", "--locate", expect=2)
        self.assertIn("STRATA_FAULTS=1 is not in the environment", self.errors)
        self.train("layer", "steps=4", "fault={at: step 2 rank 0 layer 3, do: flip_weight}", environment=FAULTS, expect=2)
        self.assertIn("with a layer below 3", self.errors)


if __name__ == "__main__":
    unittest.main()
