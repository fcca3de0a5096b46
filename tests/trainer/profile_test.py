# SPDX-License-Identifier: MIT
"""Checks a profiled run: the files in its folder, their sums, and that it learns the same as without a profile."""

import json
import os
import subprocess
import unittest

from training_runs import DEVICE, MOST_RANKS, TrainingRuns

RANKS = min(MOST_RANKS, 2)
BENCH_STEP = os.environ.get("STRATA_TEST_BENCH_STEP") or os.path.abspath("tools/bench/bench_step")


class ProfileTest(TrainingRuns):
    def profile(self, run, rank):
        with open(self.path(run, "profile/rank-%d.jsonl" % rank), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [line for line in lines if "op" not in line], [line for line in lines if "op" in line]

    def test_every_step_layer_and_op_is_there(self):
        self.train("plain", "steps=9", ranks=RANKS, batch=8 * RANKS)
        self.train("profiled", "steps=9", "profile.steps=6-8", "kernels.default=aten", ranks=RANKS, batch=8 * RANKS)
        self.assertEqual(self.losses("profiled"), self.losses("plain"))
        self.assertEqual(self.hashes("profiled"), self.hashes("plain"))
        self.assertEqual(self.output.count("profile of steps 6-8, rank 0 of %d" % RANKS), 1, self.output)
        for rank in range(RANKS):
            steps, ops = self.profile("profiled", rank)
            self.assertEqual([step["step"] for step in steps], [6, 7, 8])
            for step in steps:
                self.assertIsNone(step["difference"])
                self.assertAlmostEqual(step["compute"] + step["exposed"] + step["idle"], step["milliseconds"], places=3)
                self.assertAlmostEqual(sum(step[part] for part in ("forward", "backward", "optimizer", "other")), step["compute"], places=3)
                for phase in ("forward", "backward", "optimizer"):
                    self.assertGreater(step[phase], 0, phase)
                here = [op for op in ops if op["step"] == step["step"]]
                self.look_at_ops(here)
                if DEVICE == "cpu":
                    self.assertAlmostEqual(sum(op["milliseconds"] for op in here), step["milliseconds"], delta=0.01)
            with open(self.path("profiled", "profile/rank-%d.trace.json" % rank), encoding="utf-8") as file:
                trace = json.load(file)
            self.assertEqual({event["pid"] for event in trace}, {rank})
            self.assertGreater(len(trace), 300)

    def look_at_ops(self, ops):
        def calls(name, backward, **where):
            return sum(op["calls"] for op in ops if op["op"] == name and op["backward"] == backward and
                       all(op[key] == value for key, value in where.items()))
        for backward in (False, True):
            for layer in range(3):
                self.assertEqual(calls("linear", backward, layer=layer, level="aten"), 4)
                self.assertEqual(calls("attention", backward, layer=layer), 1)
                self.assertEqual(calls("rotary", backward, layer=layer), 1)
            self.assertEqual(calls("linear", backward, layer=None), 1)
            # The first norm has no pending branch to add.
            self.assertEqual(calls("rms_norm", backward, layer=0), 1)
            self.assertEqual(calls("add_rms_norm", backward), 6)
        self.assertGreater(calls("adamw", False, phase="optimizer", layer=None), 0)
        if RANKS > 1:
            self.assertEqual(calls("reduce_scatter", False, level="collective", layer=1), 1)
            self.assertGreaterEqual(calls("all_gather", False, level="collective", layer=1), 1)
        linear = next(op for op in ops if op["op"] == "linear" and op["layer"] == 1)
        self.assertGreater(linear["flops"], 1000)
        self.assertGreater(linear["bytes"], 1000)

    def test_recomputed_layers_are_seen_twice(self):
        self.train("recomputed", "steps=4", "profile.steps=3", "gradient_checkpointing=full", "run.threads=1", ranks=1, batch=8)
        _, ops = self.profile("recomputed", 0)
        calls = {(op["phase"], op["backward"]): op["calls"] for op in ops if op["op"] == "attention" and op["layer"] == 2}
        self.assertEqual(calls, {("forward", False): 1, ("backward", False): 1, ("backward", True): 1})

    def test_dense_and_pruned_steps_are_apart(self):
        """Ranks gather once for each table."""
        self.train("pruned", "steps=6", "profile.steps=3-6", "model.feed_forward=44", "sparsity={pattern: 2:4, only: mlp, from_step: 5}", "run.threads=1", ranks=RANKS, batch=8 * RANKS)
        self.assertIn("profile of steps 3-4, ", self.output)
        self.assertRegex(self.output, "profile of steps 5-6, .*, pruned weights; means")
        steps, _ = self.profile("pruned", 0)
        self.assertEqual([(step["step"], step["pruned"]) for step in steps], [(3, False), (4, False), (5, True), (6, True)])

    def test_a_run_that_ends_early_reports_what_it_has(self):
        self.train("short", "run.stop_after=4", "profile.steps=3-8", "run.threads=1", ranks=1)
        steps, _ = self.profile("short", 0)
        self.assertEqual([step["step"] for step in steps], [3, 4])

    def test_a_benchmark_counts_what_a_step_does_and_profiles_later_steps(self):
        """On GPUs the steps are replays of a CUDA graph, so a step of the warm-up is recorded too, after the counted one."""
        steps = "3" if DEVICE == "cpu" else "1000"  # the power is known when the counter of energy has moved twice
        command = [BENCH_STEP, self.config("bench", 8), "run.device=" + DEVICE, "run.ranks=1", "run.threads=1", "--warm-up", "5", "--steps", steps, "--profile-steps", "2"]
        done = subprocess.run([*command, "--json", self.path("bench.json")], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.path("bench.json"), encoding="utf-8") as file:
            measured = json.load(file)
        self.assertGreater(measured["counts"][0]["operators"], 100)
        self.assertGreater(measured["breakdown"]["backward"], 0)
        self.assertIsNone(measured["breakdown"].get("difference"))
        if DEVICE == "cpu":
            self.assertIsNone(measured["watts"])
        else:
            self.assertTrue(20 < measured["watts"] < 2000, measured["watts"])

    def test_without_it_nothing_is_written(self):
        self.train("none", "steps=4", "run.threads=1", ranks=1)
        self.assertFalse(os.path.exists(self.path("none", "profile")))
        self.assertNotIn("profile of", self.output)


if __name__ == "__main__":
    unittest.main()
