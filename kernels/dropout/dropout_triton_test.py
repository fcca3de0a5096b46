# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of dropout in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


class DropoutTest(KernelTest):
    def test_the_mask_is_that_of_the_formula(self):
        key, site, first_row, probability = torch.tensor([0x123456789ABCDEF]), 5, 2**32 - 1, 0.3
        for dtype in TOLERANCES:
            for rows, width in ((3, 16), (2, 33), (1, 1040)):
                x = torch.randn(rows, width).to(dtype)
                expected = formula("dropout").dropout(x.double(), probability, key, site, first_row)
                y = torch.empty_like(x)
                launch(kernels("dropout/dropout")["dropout"], x=x, y=y, key=key, site=site, first_row=first_row,
                       threshold=int(probability * 2**32), scale=1.0 / (1.0 - probability), width=width, rows=rows)
                self.assertTrue(torch.equal(y == 0, expected == 0))
                self.assert_close([y], [expected], dtype)
