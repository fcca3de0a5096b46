# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of layer_norm in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import EPSILON, SHAPES, TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


class LayerNormTest(KernelTest):
    GELU_TANH = 2

    def run_forward(self, x, branch, weight, bias, activation=0):
        rows, width = x.shape
        y, total = torch.empty_like(x), None if branch is None else torch.empty_like(x)
        mean, rstd = torch.empty(rows, 1), torch.empty(rows, 1)
        launch(kernels("layer_norm/layer_norm")["layer_norm_forward"], x=x, branch=branch, weight=weight, bias=bias, y=y, total=total,
               mean=mean, rstd=rstd, rows=rows, width=width, eps=EPSILON, adds=int(branch is not None), has_bias=int(bias is not None),
               activation=activation)
        return y, total, mean, rstd

    def run_backward(self, grad_y, grad_total, x, weight, bias, mean, rstd, activation=0, programs=3):
        rows, width = x.shape
        grad_x, weight_partials, bias_partials = torch.empty_like(x), torch.empty(min(programs, rows), width), torch.empty(min(programs, rows), width)
        launch(kernels("layer_norm/layer_norm")["layer_norm_backward"], grad_y=grad_y, grad_total=grad_total, x=x, weight=weight, bias=bias,
               mean=mean, rstd=rstd, grad_x=grad_x, weight_partials=weight_partials, bias_partials=bias_partials, rows=rows, width=width,
               adds=int(grad_total is not None), has_bias=int(bias is not None), activation=activation, programs=weight_partials.shape[0])
        return grad_x, self.sum_partials(weight_partials, x.dtype), self.sum_partials(bias_partials, x.dtype)

    def test_alone(self):
        for dtype in TOLERANCES:
            for shape in SHAPES:
                x, grad_y = (torch.randn(shape).to(dtype) for _ in range(2))
                weight, bias = (torch.randn(shape[1]).to(dtype) for _ in range(2))
                layer_norm = formula("layer_norm").layer_norm
                outputs, gradients = self.gradients(lambda x, weight, bias: layer_norm(x, weight, bias, EPSILON), [x, weight, bias], [grad_y])
                y, _, mean, rstd = self.run_forward(x, None, weight, bias)
                self.assert_close([y], outputs, dtype)
                self.assert_close(self.run_backward(grad_y, None, x, weight, bias, mean, rstd), gradients, dtype)
                plain, _, _, _ = self.run_forward(x, None, weight, None)
                self.assert_close([plain], [layer_norm(x.double(), weight.double(), None, EPSILON)], dtype)

    def test_with_the_residual_added(self):
        for dtype in TOLERANCES:
            for shape in SHAPES:
                x, branch, grad_y, grad_total = (torch.randn(shape).to(dtype) for _ in range(4))
                weight, bias = (torch.randn(shape[1]).to(dtype) for _ in range(2))
                y, total, mean, rstd = self.run_forward(x, branch, weight, bias)
                self.assert_close([total], [x.double() + branch.double()], dtype)
                outputs, gradients = self.gradients(
                    lambda total, weight, bias: (formula("layer_norm").layer_norm(total, weight, bias, EPSILON), total * 1.0),
                    [total, weight, bias], [grad_y, grad_total])
                self.assert_close([y, total], outputs, dtype)
                self.assert_close(self.run_backward(grad_y, grad_total, total, weight, bias, mean, rstd), gradients, dtype)

    def test_with_gelu_tanh_after_it(self):
        norm = formula("layer_norm").layer_norm_gelu_tanh
        for dtype in TOLERANCES:
            for shape in SHAPES:
                x, grad_y = (torch.randn(shape).to(dtype) for _ in range(2))
                weight, bias = (torch.randn(shape[1]).to(dtype) for _ in range(2))
                for given in (bias, None):
                    leaves = [x, weight] + ([] if given is None else [given])
                    outputs, gradients = self.gradients(lambda x, weight, bias=None: norm(x, weight, bias, EPSILON), leaves, [grad_y])
                    y, _, mean, rstd = self.run_forward(x, None, weight, given, self.GELU_TANH)
                    self.assert_close([y], outputs, dtype)
                    found = self.run_backward(grad_y, None, x, weight, given, mean, rstd, self.GELU_TANH)
                    self.assert_close(found[: len(leaves)], gradients, dtype)
