# SPDX-License-Identifier: MIT
"""GPUs that a run cannot use end it with exit code 2 and a sentence, before anything is launched on them."""
import os
import sys
import unittest

sys.path.insert(0, "tests/trainer")
from training_runs import TrainingRuns  # noqa: E402

MADE_UP = os.path.abspath("tests/trainer/gpus/libmade_up_gpus.so")
H100, T4, ADA = "NVIDIA H100 80GB HBM3=9.0", "Tesla T4=7.5", "NVIDIA GeForce RTX 4090=8.9"


class RefusedGpusTest(TrainingRuns):
    def refusal(self, gpus, *overrides, ranks=1, fault=None):
        self.train("refused", "run.device=cuda", *overrides, ranks=ranks, expect=2, environment={"MADE_UP_GPUS": gpus},
                   under=["env", "LD_PRELOAD=" + MADE_UP], fault=fault)
        return self.errors

    def test_a_gpu_that_is_too_old(self):
        errors = self.refusal("Tesla V100-SXM2-16GB=7.0", fault="a GPU that is too old")
        self.assertIn("run.device is cuda, and the GPU of rank 0 has compute capability 7.0, the libraries need 7.5", errors)

    def test_gpus_of_two_kinds(self):
        errors = self.refusal(H100 + "," + ADA, ranks=2, fault="GPUs of two kinds")
        self.assertIn("rank 1 has another kind of GPU than rank 0; a job needs GPUs of one kind", errors)
        self.assertRegex(errors, r"rank 1  \S+  local rank 1  GPU 1 NVIDIA GeForce RTX 4090 \(compute capability 8\.9")

    def test_a_gpu_without_the_level_of_an_op(self):
        errors = self.refusal(T4, "kernels.rms_norm=cuda")
        self.assertIn("kernels.rms_norm: rms_norm at level cuda runs on GPUs of compute capability 8.0 or later, and this Tesla T4 has 7.5; "
                      "levels there: aten, torchscript; write rms_norm: aten", errors)
        for level in ("triton", "aot_inductor"):
            errors = self.refusal(ADA, "kernels.default=" + level)
            self.assertIn("and this NVIDIA GeForce RTX 4090 has 8.9; levels there: aten, torchscript", errors)
            self.assertIn("; write default: aten", errors)

    def test_code_for_older_gpus_lacks_what_these_lack(self):
        errors = self.refusal(H100, "kernels.rms_norm=aot_inductor", "kernels.architecture=80")
        self.assertIn("runs on GPUs of compute capability 9.0 (H100, H200), and this NVIDIA H100 80GB HBM3 with kernels.architecture has 8.0; "
                      "levels there: aten, torchscript, triton, cuda; write rms_norm: aten", errors)
        errors = self.refusal(T4, "kernels.architecture=80")
        self.assertIn("kernels.architecture: such code runs on GPUs of compute capability 8.0 or later, and this Tesla T4 has 7.5; remove this line", errors)


if __name__ == "__main__":
    unittest.main()
