# SPDX-License-Identifier: MIT
"""Runs the Triton kernels on a CPU, in Triton's interpreter, against the formula of each op in fp64 and autograd. The tests of
an op stand in its folder, kernels/<op>/<op>_triton_test.py."""
import glob
import importlib
import os
import unittest

from kernel_case import TOLERANCES, KernelTest, relative

import torch


class PartialSumsTest(KernelTest):
    def test_written_and_added(self):
        for count, width in ((70, 33), (1, 40), (0, 5)):
            partials = torch.randn(count, width)
            for dtype, tolerance in TOLERANCES.items():
                self.assertLessEqual(relative(self.sum_partials(partials, dtype), partials.sum(0)), tolerance)
                before = torch.randn(width).to(dtype)
                self.assertLess(relative(self.sum_partials(partials, dtype, before), before.double() + partials.double().sum(0)), tolerance)


def add_tests_of_ops(cases):
    """Adds the classes of the files in the folders of ops, as if they stood here, so that each can be named. Returns the ops."""
    ops = set()
    for path in glob.glob("kernels/*/*_triton_test.py"):
        module = importlib.import_module(path[:-3].replace("/", "."))
        for name, case in vars(module).items():
            if isinstance(case, type) and case.__module__ == module.__name__:
                assert name not in cases, f"{path}: there is another {name}"
                case.__module__, cases[name] = __name__, case
                ops.add(path.split("/")[1])
    return ops


TESTED = add_tests_of_ops(globals())
WITH_TESTS_OF_THEIR_OWN = {"attention", "neighbor_aggregate"}  # beside this file


class OpsTest(unittest.TestCase):
    def test_the_tests_of_ops_were_found(self):
        ops = {path.split("/")[1] for path in glob.glob("kernels/*/*_triton.py")}
        ops = {op for op in ops if os.path.exists(f"kernels/{op}/{op}_triton.py")}
        self.assertEqual(ops - TESTED, WITH_TESTS_OF_THEIR_OWN)


if __name__ == "__main__":
    unittest.main()
