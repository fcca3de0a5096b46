# SPDX-License-Identifier: MIT
"""The report of a run that was trained, stopped and resumed: what the trainer writes is what the report reads."""
import sys
import unittest

sys.path.insert(0, "tests/trainer")
from report_runs import ReportRuns  # noqa: E402
from training_runs import TrainingRuns  # noqa: E402


class RealRunTest(TrainingRuns, ReportRuns):
    def test_a_resumed_run(self):
        self.train("run", "run.stop_after=10", "evaluation.samples=2", device="cpu")
        predicted = self.output.partition("bytes of tensors on a rank:\n")[2].splitlines()
        self.train("run", "evaluation.samples=2", device="cpu")
        page = self.report(self.path("run"))
        lines = self.lines("run")
        steps = [line for line in lines if "loss" in line]
        self.assertEqual(len(steps), 20)
        self.assertEqual(page.chart("loss")["rows"], [[line["step"], float(f"{line['loss']:.7g}")] for line in steps])
        self.assertEqual(page.chart("phases-0")["stack"], list(steps[0]["phases"]))
        self.assertEqual([row[:3] for row in page.table("start", "first step", "ranks", "device")], [["1", "1", "2"], ["2", "11", "2"]])
        evaluations = [line for line in lines if "validation_loss" in line]
        self.assertEqual([row[1] for table in page.tables if table[0][:2] == ["step", "validation_loss"] for row in table[1:]],
                         [str(line["validation_loss"]) for line in evaluations])  # fmt: skip
        self.assertRegex(page.text(), r"Sample 1 after step 20: mean loss \d\.\d{4} of 12 tokens\.")
        self.assertRegex(page.text(), r"Sample 1 after step 10: mean loss \d\.\d{4} of 12 tokens\.")
        memory = page.table("predicted for a rank", "bytes", "MiB")
        self.assertEqual([row[0] for row in memory[-3:-1]], ["most at once", "also, in memory of the host, for saves"])
        self.assertEqual([row[:2] for row in memory[:-1]], [[line[2:48].strip(), line.split()[-3]] for line in predicted[:len(memory) - 1]])
        self.assertEqual(memory[-1][:2], ["measured, at most", f"{max(line['memory_bytes'] for line in steps):,}"])
        keys = {row[0]: row[1:] for row in page.table("key", "value", "origin")}
        self.assertEqual(keys["optimizer.learning_rate"][0], "0.01")
        self.assertTrue(keys["optimizer.learning_rate"][1].endswith("run.yaml:8"), keys["optimizer.learning_rate"])
        self.assertEqual(keys["run.ranks"], ["2", "override"])
        facts = dict(page.table("", "from step 1"))
        self.assertLessEqual({"device", "LibTorch", "ranks", "sharding", "data"}, set(facts))
        self.assertIn("all steps are done", page.text())
        self.assertIn("No fault was recorded.", page.text())

    def test_a_run_that_fails(self):
        self.train("run", "fault={at: step 6 rank 1, kind: nan}", device="cpu", expect=5, environment={"STRATA_FAULTS": "1"})
        page = self.report(self.path("run"))
        self.assertIn("failed with exit code 5", page.text())
        self.assertIn(["code", "5"], page.table("error.json", ""))
        self.assertIn(["6", "not finite", "gradient_norm"], page.table("step", "what", "more"))


if __name__ == "__main__":
    unittest.main()
