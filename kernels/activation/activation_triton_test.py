# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of activation in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


class ActivationTest(KernelTest):
    def test_forward_and_backward(self):
        for dtype in TOLERANCES:
            for number, kind in enumerate(["gelu", "gelu_tanh", "relu", "silu"], start=1):
                for size in (64, 37):
                    x, grad_y = (torch.randn(size).mul(3.0).to(dtype) for _ in range(2))
                    outputs, gradients = self.gradients(lambda x: formula("activation").activation(x, kind), [x], [grad_y])
                    y, grad_x = torch.empty_like(x), torch.empty_like(x)
                    launch(kernels("activation/activation")["activation_forward"], x=x, y=y, count=size, kind=number)
                    launch(kernels("activation/activation")["activation_backward"], grad_y=grad_y, x=x, grad_x=grad_x, count=size, kind=number)
                    self.assert_close([y, grad_x], outputs + gradients, dtype)

    def test_relu_keeps_what_is_not_a_number(self):
        x = torch.tensor([float("nan"), -1.0, 2.0, float("-inf"), -0.0])
        y = torch.empty_like(x)
        launch(kernels("activation/activation")["activation_forward"], x=x, y=y, count=5, kind=3)
        torch.testing.assert_close(y, torch.tensor([float("nan"), 0.0, 2.0, 0.0, 0.0]), rtol=0, atol=0, equal_nan=True)

    def test_slopes_where_they_are_nearly_one(self):
        x = torch.linspace(-9.0, 9.0, 4096)
        grad_y, grad_x = torch.ones_like(x), torch.empty_like(x)
        for number, kind in enumerate(["gelu", "gelu_tanh", "relu", "silu"], start=1):
            _, (expected,) = self.gradients(lambda x: formula("activation").activation(x, kind), [x], [grad_y])
            launch(kernels("activation/activation")["activation_backward"], grad_y=grad_y, x=x, grad_x=grad_x, count=x.numel(), kind=number)
            self.assertLess((grad_x.double() - expected).abs().max().item(), 4e-7, kind)
