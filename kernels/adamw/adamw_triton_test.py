# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of adamw in Triton's interpreter, against the formula in fp64 and autograd."""
import math

from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


class AdamwTest(KernelTest):
    def test_update(self):
        for gradient_type in TOLERANCES:
            for size in (64, 37):
                for skip in (0.0, 1.0):
                    master, first, second = torch.randn(size), torch.randn(size) * 0.1, torch.rand(size)
                    gradient = torch.randn(size).to(gradient_type)
                    scalars = [torch.tensor(value) for value in (0.015625, 3.0, 0.75, skip)]
                    beta1, beta2, epsilon, decay = 0.9, 0.95, 1e-8, 0.1
                    expected = formula("adamw").adamw(master.double(), first.double(), second.double(), gradient.double(),
                                                      *(scalar.double() for scalar in scalars), beta1, beta2, epsilon, decay)
                    copy = torch.empty(size, dtype=torch.bfloat16)
                    launch(kernels("adamw/adamw")["adamw"], master=master, first_moment=first, second_moment=second, gradient=gradient,
                           compute_copy=copy, learning_rate=scalars[0], step=scalars[1], gradient_scale=scalars[2], skip=scalars[3],
                           beta1=beta1, beta2=beta2, log_beta1=math.log(beta1), log_beta2=math.log(beta2), epsilon=epsilon,
                           weight_decay=decay, has_copy=1, count=size)
                    self.assert_close([master, first, second], expected, torch.float32)
                    self.assert_close([copy], [master], torch.bfloat16)
