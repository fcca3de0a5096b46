# SPDX-License-Identifier: MIT
"""Checks that an NVIDIA driver which is too old is reported, with the version that it supports and the version that
is needed."""

import os
import unittest

from training_runs import TrainingRuns

DRIVER = os.path.abspath("tests/trainer/old_driver")  # the folder of a libcuda.so.1


class OldDriverTest(TrainingRuns):
    def test_it_is_refused_before_the_first_collective(self):
        for ranks in (1, 2):
            self.train("refused", "run.device=cuda", ranks=ranks, expect=2, environment={"LD_LIBRARY_PATH": DRIVER})
            self.assertIn("run.device is cuda, and rank 0 has no GPU of its own", self.errors)
            self.assertRegex(self.errors, r"rank %d  \S+  local rank %d  no GPU: the NVIDIA driver knows CUDA 12\.4, and these binaries need 13\.\d: "
                             "install a newer driver" % (ranks - 1, ranks - 1))

    def test_a_run_that_may_use_cpus_says_why_it_does(self):
        self.train("cpu", "run.device=auto", "steps=4", ranks=1, environment={"LD_LIBRARY_PATH": DRIVER})
        self.assertRegex(self.output, r"device: cpu, because run\.device is auto and there is no GPU that can be used \(the NVIDIA driver knows CUDA 12\.4")


if __name__ == "__main__":
    unittest.main()
