# SPDX-License-Identifier: MIT
"""Training in float16 with a scaled loss: it learns as float32 does, its scale is that of torch.amp.GradScaler, and what overflows is left out."""

import math
import os
import sys
import unittest

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from training_runs import EVERY, TrainingRuns, for_each_family  # noqa: E402

FLOAT16 = ["precision.compute=float16", "evaluation.every=0"]
FAULTS = {"STRATA_FAULTS": "1"}


def scaling(**keys):
    return ["precision.loss_scaling.%s=%s" % key for key in keys.items()]


class Float16TrainingTest(TrainingRuns):
    def steps(self, run):
        return [line for line in self.lines(run) if "gradient_norm" in line]

    def scales(self, run):
        return [line["loss_scale"] for line in self.steps(run)]

    def skipped(self, run):
        return [line["step"] for line in self.steps(run) if line.get("skipped")]

    @for_each_family
    def test_learns_as_float32(self, family, *overrides):
        """Its scale is so small that no gradient overflows. AdamW takes gradients of any scale, so the first norms are compared too.
        In float32 one rank learns what two do (training_test.py)."""
        most = 0.2 if family == "many_graphs" else 0.02  # roundings grow there: in bfloat16 the losses differ by a quarter
        self.train(family, *overrides, "evaluation.every=0", ranks=1)
        for reduce in ("float32", "float16") if EVERY or family == "language" else ("float16",):
            run = family + reduce
            self.train(run, *overrides, *FLOAT16, *scaling(initial=128), "precision.reduce=" + reduce)
            self.assertEqual(self.skipped(run), [])
            for half, single in zip(self.losses(run), self.losses(family), strict=True):
                self.assertLess(abs(half - single), most * single, run)
            for half, single in list(zip(self.steps(run), self.steps(family)))[:3]:
                self.assertLess(abs(half["gradient_norm"] / single["gradient_norm"] - 1), 0.01, run)

    def test_the_scale_is_that_of_grad_scaler(self):
        """Gradients overflow each time that the scale has grown enough, about 150 times in all."""
        keys = {"initial": 1024, "growth": 4, "backoff": 0.25, "growth_interval": 3}
        small = ["model={type: transformer, family: llama, layers: 1, width: 8, heads: 1, feed_forward: 16, sequence: 12, vocabulary: 37}",
                 "optimizer.learning_rate=1e-4"]  # fmt: skip
        steps = 300
        for ranks in self.some_ranks(1, 2):
            run = "ranks%d" % ranks
            self.train(run, *FLOAT16, *small, *scaling(**keys), "steps=%d" % steps, "batch=16", "checkpoint.every=0", ranks=ranks)
            weight = torch.nn.Parameter(torch.zeros(1))
            optimizer = torch.optim.SGD([weight])
            scaler = torch.amp.GradScaler("cpu", init_scale=keys["initial"], growth_factor=keys["growth"], backoff_factor=keys["backoff"],
                                          growth_interval=keys["growth_interval"])
            lines = self.steps(run)
            for line in lines:
                scale = scaler.scale(torch.ones(())).item()
                self.assertEqual(line["loss_scale"], scale, "step %d" % line["step"])
                weight.grad = torch.tensor([math.inf if line.get("skipped") else scale])
                scaler.step(optimizer)
                scaler.update()
            self.assertEqual(len(lines), steps)
            self.assertGreater(len(self.skipped(run)), steps // 20)

    def test_groups_of_three_types(self):
        """Only one of them needs the scale, and the gradients of all have it. Those of bfloat16 are reduced in float16."""
        layers = "layers: [{only: 1, compute: float32}, {only: 2, compute: bfloat16}]"
        self.train("single", "evaluation.every=0", ranks=1)
        self.train("mixed", "precision={compute: float16, reduce: float16, %s}" % layers, "evaluation.every=0")
        for mixed, single in zip(self.losses("mixed"), self.losses("single"), strict=True):
            self.assertLess(abs(mixed - single), 0.02 * single)
        self.assertLess(len(self.skipped("mixed")), 5)

    def test_small_gradients_need_the_scale(self):
        """The loss is a mean over 196,608 tokens. A scale of 1 loses the gradients below 6e-8, which is 1 % of the norm."""
        many = ["steps=1", "schedule.warmup=0", "batch=16384", "micro_batch=1024", "checkpoint.every=0"]
        self.train("single", *many, "evaluation.every=0", ranks=1)
        self.train("scaled", *FLOAT16, *many, ranks=1)
        self.train("plain", *FLOAT16, *many, *scaling(initial=1, growth_interval=10**9), ranks=1)
        norms = {run: self.steps(run)[0]["gradient_norm"] for run in ("single", "scaled", "plain")}
        self.assertLess(abs(norms["scaled"] / norms["single"] - 1), 0.001)
        self.assertGreater(abs(norms["plain"] / norms["single"] - 1), 0.005)

    def test_a_resumed_run_goes_on_with_the_scale(self):
        keys = scaling(initial=64, growth_interval=4)
        self.train("whole", *FLOAT16, *keys)
        self.train("parts", *FLOAT16, *keys, "run.stop_after=10")
        self.train("parts", *FLOAT16, *keys)
        self.assertEqual(self.scales("whole"), [64 * 2 ** (step // 4) for step in range(20)])
        self.assertEqual(self.scales("parts"), self.scales("whole"))
        self.assertEqual(self.hashes("parts")[20], self.hashes("whole")[20])

    def test_a_rank_that_overflows_is_left_out_on_all(self):
        """A NaN of a gradient is taken for an overflow while the scale is above 1, whatever run.on_nonfinite is."""
        fault = "fault={at: step 3 rank 1, kind: nan}"
        for then in ("stop", "skip", "rollback"):
            self.train(then, *FLOAT16, fault, "run.on_nonfinite=" + then, environment=FAULTS)
            self.assertEqual(self.skipped(then), [3])
            self.assertEqual(self.scales(then), 3 * [65536.0] + 17 * [32768.0])
            self.assertIn("loss_scale: 32768", self.output)

    def test_what_no_scale_helps_ends_the_run(self):
        fault = "fault={at: step 3 rank 1, kind: nan}"
        self.train("one", *FLOAT16, *scaling(initial=1, growth_interval=10**9), fault, environment=FAULTS, expect=5)
        self.assertEqual(self.error("one")["step"], 3)
        self.train("loss", *FLOAT16, "fault={at: step 3 rank 1, kind: nan_loss}", environment=FAULTS, expect=5)
        self.assertIn("step 3: the loss is", self.error("loss")["message"])
        self.train("weights", *FLOAT16, "fault={at: step 3 rank 1, kind: nan_weights}", environment=FAULTS, expect=5, fault="NaN in the weights")
        self.assertRegex(self.error("weights")["message"], r"step 4: the loss is -?nan; .* Gradients are not finite either\. First, in the order ")
        self.assertIn("or compute in bfloat16", self.error("weights")["message"])

    def test_sums_that_overflow_in_float16_are_named(self):
        """The fault makes gradients of 10^5 to 10^9. Float32 has such numbers, and without sharding a rank has its gradients in float32."""
        bfloat16 = "compute: float16, layers: [{only: 0-2, compute: bfloat16}], modules: [{only: root, compute: bfloat16}], loss_scaling: {initial: 1, growth_interval: 1000000000}"
        large = ["sharding.strategy=none", "steps=2", "schedule={type: constant}", "evaluation.every=0",
                 "fault={at: step 2 rank 1, kind: large_gradient}"]  # fmt: skip
        self.train("sums", *large, "precision={reduce: float16, %s}" % bfloat16, environment=FAULTS, expect=5)
        message = self.error("sums")["message"]
        self.assertIn("step 2: a gradient is not finite; the update was left out. The gradients of each rank are finite, and their sums over ranks "
                      "are not:", message)  # fmt: skip
        for rank in (0, 1):
            self.assertRegex(message, r"\n  rank %d: \d+ of \d+ gradients of \S+ \(group \S+\), summed in float16\n" % rank)
        self.assertIn("set precision.reduce to float32", message)
        self.train("wide", *large, "precision={%s}" % bfloat16, environment=FAULTS)
        self.assertGreater(self.steps("wide")[1]["gradient_norm"], 65504)

    def test_a_run_goes_on_with_the_types_and_the_scaling_that_it_began_with(self):
        self.train("run", *FLOAT16, "run.stop_after=5")
        for key, overrides in (("compute", ["evaluation.every=0"]), ("loss_scaling.growth_interval", [*FLOAT16, *scaling(growth_interval=4)])):
            self.train("run", *overrides, expect=2)
            self.assertIn("precision." + key, self.errors)


if __name__ == "__main__":
    unittest.main()
