# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of activation in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import choose, formula, kernels, launch

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

    def test_unknown_kinds_are_refused(self):
        """Numbers from 5 on have no branch, and would be the identity, or silu in a gate."""
        x, gate_up = torch.randn(2, 64), torch.randn(2, 128)
        partials = torch.empty(1, 64)
        for kind, refused in ((-1, True), (0, False), (4, False), (5, True)):
            calls = [("activation/activation", "activation_forward", dict(x=x, y=x, count=128)),
                     ("activation/activation", "activation_backward", dict(grad_y=x, x=x, grad_x=x, count=128)),
                     ("linear/linear", "linear_forward", dict(a=x, b=x, bias=None, c=x, pre_activation=None, rows=2, columns=64, depth=64, has_bias=0,
                                                              keeps_pre_activation=0, add=0)),
                     ("linear/linear", "linear_gradient", dict(grad_y=x, pre_activation=x, grad=x, partials=partials, rows=2, columns=64, walkers=1))]
            if kind != 0:  # there is no gate without an activation
                calls += [("swiglu/swiglu", "swiglu_forward", dict(gate_up=gate_up, y=x, width=64, rows=2)),
                          ("swiglu/swiglu", "swiglu_backward", dict(grad_y=x, gate_up=gate_up, grad=gate_up, width=64, rows=2))]
            for path, name, arguments in calls:
                with self.subTest(f"{name}, kind {kind}"):
                    if refused:
                        self.assertRaisesRegex(ValueError, "nothing was compiled", choose, kernels(path)[name], {**arguments, "kind": kind})
                    else:
                        choose(kernels(path)[name], {**arguments, "kind": kind})

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
