# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of linear in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


class LinearTest(KernelTest):
    """Calls the kernels of forward and backward in the order of linear_triton.cc."""

    KINDS = ["none", "gelu", "gelu_tanh", "relu"]

    def multiply(self, name, a, b, c, rows, columns, depth, bias=None, pre_activation=None, kind=0, add=0):
        return launch(kernels("linear/linear")[name], a=a, b=b, bias=bias, c=c, pre_activation=pre_activation, rows=rows, columns=columns,
                      depth=depth, kind=kind, has_bias=int(bias is not None), keeps_pre_activation=int(pre_activation is not None), add=add)

    def check(self, dtype, rows, width, out, number):
        x, weight, bias, grad_y = (torch.randn(size).to(dtype) for size in ((rows, width), (out, width), (out,), (rows, out)))
        outputs, gradients = self.gradients(lambda x, weight, bias: formula("linear").linear(x, weight, bias, self.KINDS[number]),
                                            [x, weight, bias], [grad_y])
        y, before = torch.empty(rows, out, dtype=dtype), torch.empty(rows, out, dtype=dtype)
        self.multiply("linear_forward", x, weight, y, rows, out, width, bias=bias, pre_activation=before, kind=number)
        self.assert_close([y], outputs, dtype)
        before = y if self.KINDS[number] == "relu" else before
        grad, partials = torch.empty_like(grad_y) if number else grad_y, torch.empty(2, out)
        launch(kernels("linear/linear")["linear_gradient"], grad_y=grad_y, pre_activation=before, grad=grad, partials=partials, rows=rows,
               columns=out, kind=number, walkers=2)
        grad_x, grad_weight = torch.empty_like(x), torch.empty(out, width)
        self.multiply("linear_input_gradient", grad, weight, grad_x, rows, width, out)
        self.multiply("linear_weight_gradient", grad, x, grad_weight, out, width, rows)
        self.assert_close([grad_x, grad_weight, self.sum_partials(partials, dtype)], gradients, dtype)
        self.multiply("linear_weight_gradient", grad, x, grad_weight, out, width, rows, add=1)
        self.assert_close([grad_weight], [2.0 * gradients[1]], dtype)

    def test_every_activation(self):
        for dtype in TOLERANCES:
            for number in range(len(self.KINDS)):
                self.check(dtype, 7, 33, 21, number)
            self.check(dtype, 80, 48, 144, 1)  # aligned, more than one block in each dimension

    def test_large_blocks(self):
        wide, rows = 256 * 66, 16
        x, weight, y = torch.randn(rows, 16).bfloat16(), torch.randn(wide, 16).bfloat16(), torch.empty(rows, wide, dtype=torch.bfloat16)
        for kind in (0, 3):
            chosen = self.multiply("linear_forward", x, weight, y, rows, wide, 16, kind=kind)
            self.assertEqual(chosen.constants["ROWS"], 128)
            expected = x.double() @ weight.double().t()
            self.assert_close([y], [expected.relu() if kind else expected], torch.bfloat16)
