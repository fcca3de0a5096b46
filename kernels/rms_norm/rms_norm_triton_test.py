# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of rms_norm in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import EPSILON, SHAPES, TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


class RmsNormTest(KernelTest):
    def run_forward(self, x, branch, weight):
        rows, width = x.shape
        y, total = torch.empty_like(x), None if branch is None else torch.empty_like(x)
        rstd = torch.empty(rows, 1)
        launch(kernels("rms_norm/rms_norm")["rms_norm_forward"], x=x, branch=branch, weight=weight, y=y, total=total, rstd=rstd, rows=rows,
               width=width, eps=EPSILON, adds=int(branch is not None))
        return y, total, rstd

    def run_backward(self, grad_y, grad_total, x, weight, rstd, programs=3):
        rows, width = x.shape
        grad_x, partials = torch.empty_like(x), torch.empty(min(programs, rows), width)
        launch(kernels("rms_norm/rms_norm")["rms_norm_backward"], grad_y=grad_y, grad_total=grad_total, x=x, weight=weight, rstd=rstd,
               grad_x=grad_x, partials=partials, rows=rows, width=width, adds=int(grad_total is not None), programs=partials.shape[0])
        return grad_x, self.sum_partials(partials, x.dtype)

    def test_alone(self):
        for dtype in TOLERANCES:
            for shape in SHAPES:
                x, grad_y, weight = (torch.randn(size).to(dtype) for size in (shape, shape, shape[1:]))
                outputs, gradients = self.gradients(lambda x, weight: formula("rms_norm").rms_norm(x, weight, EPSILON), [x, weight], [grad_y])
                y, _, rstd = self.run_forward(x, None, weight)
                self.assert_close([y], outputs, dtype)
                self.assert_close(self.run_backward(grad_y, None, x, weight, rstd), gradients, dtype)

    def test_with_the_residual_added(self):
        for dtype in TOLERANCES:
            for shape in SHAPES:
                x, branch, grad_y, grad_total = (torch.randn(shape).to(dtype) for _ in range(4))
                weight = torch.randn(shape[1]).to(dtype)
                y, total, rstd = self.run_forward(x, branch, weight)
                self.assert_close([total], [x.double() + branch.double()], dtype)
                # The reference starts from the rounded sum, which the backward reads.
                outputs, gradients = self.gradients(lambda total, weight: (formula("rms_norm").rms_norm(total, weight, EPSILON), total * 1.0),
                                                    [total, weight], [grad_y, grad_total])
                self.assert_close([y, total], outputs, dtype)
                self.assert_close(self.run_backward(grad_y, grad_total, total, weight, rstd), gradients, dtype)
