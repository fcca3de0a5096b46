# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of sum_of_squares in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


class SumOfSquaresTest(KernelTest):
    def test_sum(self):
        for dtype in TOLERANCES:
            tensors = [torch.randn(5000).to(dtype), torch.randn(15).to(dtype)]
            partials, result = torch.full((4,), float("nan"), dtype=torch.float64), torch.empty(())
            for tensor, first, programs in ((tensors[0], 0, 3), (tensors[1], 3, 1)):
                launch(kernels("sum_of_squares/sum_of_squares")["sum_of_squares_partials"], x=tensor, partials=partials, count=tensor.numel(),
                       first_partial=first, programs=programs)
            launch(kernels("sum_of_squares/sum_of_squares")["sum_of_squares_total"], partials=partials, result=result, count=4)
            self.assert_close([result], [formula("sum_of_squares").sum_of_squares([tensor.double() for tensor in tensors])], torch.float32)
