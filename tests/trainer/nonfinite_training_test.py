# SPDX-License-Identifier: MIT
"""What is not finite ends a run, skips an update or takes the run back to a checkpoint: also a loss with finite
gradients, and not for ever."""

import os
import shutil
import unittest

from training_runs import EVERY, TrainingRuns, expect_fault, for_families

FAULTS = {"STRATA_FAULTS": "1"}
ROLLBACK = ["run.on_nonfinite=rollback", "run.deterministic=true"]


def fault(kind, step, rank=1, more=""):
    return "fault={at: step %d rank %d, kind: %s%s}" % (step, rank, kind, more)


class NonfiniteTrainingTest(TrainingRuns):
    def skipped(self, run):
        return [line["step"] for line in self.lines(run) if line.get("skipped")]

    def test_a_loss_that_is_not_finite_counts_though_the_gradients_are(self):
        loss = "fault={at: step 3 rank 1, kind: nan_loss}"
        self.train("stop", loss, environment=FAULTS, expect=5, fault="NaN in the loss")
        self.assertEqual((self.error("stop")["code"], self.error("stop")["step"]), (5, 3))
        self.assertRegex(self.error("stop")["message"], "step 3: the loss is -?nan, though every gradient is finite; the update was left out")
        self.train("skip", loss, "run.on_nonfinite=skip", environment=FAULTS)
        self.assertEqual(self.skipped("skip"), [3])
        self.assertEqual([step for step, value in enumerate(self.losses("skip"), 1) if value is None], [3])

    def test_skipping_ends_when_nothing_is_learnt_any_more(self):
        self.train("forever", "fault={at: step 3 rank 1, kind: nan_weights}", "run.on_nonfinite=skip", "steps=200", "evaluation.every=0", "checkpoint.every=50",
                   environment=FAULTS, expect=5)
        self.assertEqual(self.skipped("forever"), list(range(4, 104)))
        self.assertIn("step 103: the last 100 updates were all skipped", self.error("forever")["message"])

    def test_a_gradient_that_is_a_thousand_times_as_large_is_named_at_its_step(self):
        self.train("spike", "fault={at: step 21 rank 1, kind: scale_gradient}", "steps=30", "evaluation.every=0", environment=FAULTS)
        spikes = [line for line in self.lines("spike") if "spike" in line]
        self.assertEqual([(line["step"], line["spike"]["what"]) for line in spikes], [(21, "gradient norm")])
        self.assertGreater(spikes[0]["spike"]["value"], 100 * spikes[0]["spike"]["usual"])
        self.assertIn("warning: step 21: the gradient norm is", self.errors)

    def rollbacks(self, run):
        """Returns where the run went back to, and because of which step."""
        return [(line["step"], line["rollback"]) for line in self.lines(run) if "rollback" in line]

    def expect_same(self, run, reference):
        """All that the reference has of steps, evaluations and weights is equal bit for bit. A stop adds an evaluation
        and a checkpoint."""
        self.assertEqual(len(self.losses(run)), 20)
        for key in ("loss", "gradient_norm", "learning_rate", "validation_loss", "weights_sha256"):
            found, expected = ({line["step"]: line[key] for line in self.lines(name) if key in line} for name in (run, reference))
            self.assertEqual({step: found.get(step) for step in expected}, expected, key)

    def expect_no_trace(self, family, overrides, ranks, faults):
        """Trains once without a fault, and once with each of `faults`: its name, its text, and the rollback it causes."""
        clean = "%s-%d" % (family, ranks)
        self.train(clean, *ROLLBACK, *overrides, ranks=ranks)
        for name, text, back in faults:
            with self.subTest(name, ranks=ranks):
                run = clean + "-" + name
                self.train(run, *ROLLBACK, *overrides, text, ranks=ranks, environment=FAULTS)
                self.assertEqual(self.rollbacks(run), [back])
                self.assertIn("warning: step %d: the loss or a gradient is not finite" % back[1], self.errors)
                self.assertIn("rolled back from step %d to step %d" % (back[1], back[0]), self.output)
                self.expect_same(run, clean)

    @for_families("language", "vision")
    def test_a_run_with_a_fault_that_passes_ends_as_one_without(self, family, *overrides):
        """Also before its first checkpoint."""
        for ranks in self.some_ranks(1, 2) if EVERY or family == "language" else (2,):
            self.expect_no_trace(family, overrides, ranks, [("gradient", fault("nan", 13, ranks - 1), (10, 13)),
                                                            ("early", fault("nan_loss", 3, ranks - 1), (0, 3))])

    @for_families("language", "vision")
    def test_so_does_one_with_a_fault_in_its_weights_or_its_last_step(self, family, *overrides):
        self.expect_no_trace(family, overrides, 2, [("weights", fault("nan_weights", 16), (15, 17)), ("last", fault("nan_loss", 20), (15, 20))])

    def test_a_fault_that_stays_stops_the_run_and_the_next_start_resumes(self):
        self.train("clean", *ROLLBACK)
        self.train("stays", *ROLLBACK, fault("nan", 13, more=", repeats_after_rollback: true"), environment=FAULTS, expect=5, fault="a NaN that stays")
        report = self.error("stays")
        self.assertEqual((report["code"], report["step"]), (5, 13))
        self.assertRegex(report["message"], "step 13: a gradient is not finite, also after a rollback")
        self.assertRegex(report["message"], r"rank 1: 1 of \d+ gradients of [a-z0-9_.]+ \(group [a-z0-9.]+\)")
        self.assertNotIn("rank 0:", report["message"])
        self.assertEqual(self.rollbacks("stays"), [(10, 13)])
        self.train("stays", *ROLLBACK)
        self.assertIn("resumed from step 10", self.output)
        self.expect_same("stays", "clean")

    def test_a_run_is_resumed_after_a_rollback(self):
        """Also one that replaced another run in its folder. A rollback does not replace it again."""
        self.train("clean", *ROLLBACK)
        self.train("twice", *ROLLBACK, "run.seed=2", "run.stop_after=6")
        self.train("twice", *ROLLBACK, "run.overwrite=true", "run.stop_after=9", fault("nan", 8), environment=FAULTS)
        self.assertEqual(self.rollbacks("twice"), [(5, 8)])
        self.train("twice", *ROLLBACK, fault("nan_loss", 12), environment=FAULTS)
        self.assertIn("resumed from step 9", self.output)
        self.assertEqual(self.rollbacks("twice"), [(5, 8), (10, 12)])
        self.expect_same("twice", "clean")

    def test_a_save_under_way_is_finished_and_used(self):
        self.train("clean", *ROLLBACK, "checkpoint.every=1")
        self.train("saving", *ROLLBACK, "checkpoint.every=1", fault("nan", 13), environment=FAULTS)
        self.assertEqual(self.rollbacks("saving"), [(12, 13)])
        self.expect_same("saving", "clean")

    def test_a_run_that_has_lost_its_checkpoints_does_not_begin_anew(self):
        process = self.start("lost", *ROLLBACK, "steps=100000", "checkpoint.every=300", "evaluation.every=0", "log.every=1000", "run.threads=1",
                             fault("nan", 570, 0), ranks=1, environment=FAULTS)
        checkpoints = self.path("lost", "checkpoints")
        self.wait_for(process, "lost", lambda: os.path.lexists(os.path.join(checkpoints, "latest")))
        shutil.rmtree(checkpoints)
        _, errors = process.communicate(timeout=120)
        expect_fault(self, "the checkpoints are removed", 4, process.returncode, errors)
        report = self.error("lost")
        self.assertEqual((report["step"], report["phase"]), (570, "rollback"))
        self.assertIn("checkpoints: no checkpoint; one must be there", report["message"])
        self.assertGreater(len(self.losses("lost")), 300)


if __name__ == "__main__":
    unittest.main()
