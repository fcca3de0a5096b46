# SPDX-License-Identifier: MIT
"""Checks bench_step with --level on the CPU: a step at each level, compared with that of level aten before it is timed."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from bench_runs import STEP, BenchRuns  # noqa: E402


class StepLevelsTest(BenchRuns):
    def step_at(self, level, *words, expect=0, faults=""):
        """Returns the row of a step at a level, which is compared with that at level aten if there is one."""
        aten = ["--aten", self.folder + "/aten.json"] if os.path.exists(self.folder + "/aten.json") else []
        rows = f"{self.folder}/{level}.json"
        _, self.errors = self.run_program(STEP, self.write_config("llama"), *words, "--level", level, *aten, "--warm-up", "5", "--steps", "3",
                                          "--profile-steps", "2", "--json", rows, expect=expect, environment={"STRATA_FAULTS": faults})  # fmt: skip
        with open(rows, encoding="utf-8") as file:
            return json.loads(file.readlines()[-1])

    def test_each_level_computes_the_same_step(self):
        for precision in ("float32", "bfloat16"):
            compute = "precision.compute=" + precision
            if os.path.exists(self.folder + "/aten.json"):
                os.remove(self.folder + "/aten.json")
            aten = self.step_at("aten", compute)
            self.assertEqual(set(aten["levels"].values()), {"aten"})
            self.assertLessEqual({"linear", "rms_norm", "attention", "activation", "embedding", "cross_entropy", "adamw"}, set(aten["levels"]))
            self.assertGreater(aten["launches"], 100)
            self.assertGreater(aten["step_memory_bytes"], 32 * 37 * 4)  # at least the logits
            row = self.step_at("torchscript", compute)
            self.assertEqual(set(row["levels"].values()), {"torchscript"})
            self.assertAlmostEqual(row["times_aten"] * aten["milliseconds"], row["milliseconds"], places=6)
            for key in ("first_loss", "first_gradient_norm"):
                self.assertAlmostEqual(row[key] / aten[key], 1, delta={"float32": 2e-5, "bfloat16": 2e-2}[precision], msg=key)
            self.assertNotEqual(row["launches"], aten["launches"])
            # What the CPU lacks is no error.
            for level in ("triton", "cuda"):
                row = self.step_at(level, compute)
                self.assertEqual(list(row), ["level", "not_timed"])
                self.assertRegex(row["not_timed"], f"has no kernel at level {level} on cpu .this level is GPU code.; levels there: aten")

    def test_a_level_that_computes_another_step_is_not_timed(self):
        aten = self.step_at("aten")
        for fault, what in ("nan_loss", "loss"), ("scale_gradient", "gradient norm"):
            row = self.step_at("torchscript", "fault={at: step 1 rank 0, kind: %s}" % fault, expect=5, faults="1")
            self.assertEqual(list(row), ["level", "not_timed"])
            self.assertRegex(row["not_timed"], f"the {what} of step 1 is .*, and at level aten .* is allowed; the level is not timed")
            self.assertIn(row["not_timed"], self.errors)
        # A loss that is off by 1e-4 is refused, and one that is off by 1e-6 is that of another order of sums.
        for off, expect in (1e-4, 5), (1e-6, 0):
            with open(self.folder + "/aten.json", "w", encoding="utf-8") as file:
                file.write(json.dumps({**aten, "first_loss": aten["first_loss"] * (1 + off)}) + "\n")
            self.assertEqual("milliseconds" in self.step_at("torchscript", expect=expect), expect == 0)
        with open(self.folder + "/aten.json", "w", encoding="utf-8") as file:
            file.write("{}\n")
        self.run_program(STEP, self.config, "--level", "torchscript", "--aten", self.folder + "/aten.json", expect=2)
        self.run_program(STEP, self.config, "--level", "quick", expect=2)

    def test_steps_whose_gradients_overflow_are_not_compared(self):
        scaled = "precision={compute: float16, loss_scaling: {initial: 1e9, backoff: 0.001}}"
        aten = self.step_at("aten", scaled)
        self.assertGreater(aten["first_gradient_norm"], 0)  # that of step 1 is not finite, and JSON has no number for it
        row = self.step_at("torchscript", scaled)
        self.assertAlmostEqual(row["first_gradient_norm"] / aten["first_gradient_norm"], 1, delta=2e-3)


if __name__ == "__main__":
    unittest.main()
