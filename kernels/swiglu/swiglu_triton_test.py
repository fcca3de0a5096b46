# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of swiglu in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


class SwigluTest(KernelTest):
    def test_forward_and_backward(self):
        for dtype in TOLERANCES:
            for rows, width in ((3, 16), (5, 33), (1, 1040)):
                gate_up, grad_y = torch.randn(rows, 2 * width).to(dtype), torch.randn(rows, width).to(dtype)
                for number, kind in ((4, "silu"), (2, "gelu_tanh")):
                    outputs, gradients = self.gradients(lambda x: formula("swiglu").swiglu(x, kind), [gate_up], [grad_y])
                    y, grad = torch.empty_like(grad_y), torch.empty_like(gate_up)
                    launch(kernels("swiglu/swiglu")["swiglu_forward"], gate_up=gate_up, y=y, width=width, kind=number, rows=rows)
                    launch(kernels("swiglu/swiglu")["swiglu_backward"], grad_y=grad_y, gate_up=gate_up, grad=grad, width=width, kind=number,
                           rows=rows)
                    self.assert_close([y, grad], outputs + gradients, dtype)
