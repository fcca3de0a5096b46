# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of activation in Triton's interpreter, against the formula in fp64 and autograd."""
import importlib
import re

from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import choose, formula, kernels, launch

import torch

MADE_UP = 99
PLAIN = ("linear_input_gradient", "linear_weight_gradient")  # kernels of linear that compute no activation


def kinds():
    return importlib.import_module("kernels.activation.activation_triton").KINDS


def rows_of_table():
    """The rows of traits_of() in activation_kind.h: the text that initializes each kind, by its name."""
    with open("kernels/activation/activation_kind.h", encoding="utf-8") as file:
        return dict(re.findall(r"case Activation::(\w+):\s+return {(.*?)};", file.read(), re.DOTALL))


def calls_with_kinds():
    """Kernels that take an activation: their path and name, the argument that has the number of the kind, and the other arguments."""
    x, wide, bias, row = torch.randn(2, 64), torch.randn(2, 128), torch.randn(64), torch.ones(2)
    product = dict(a=x, b=x, bias=None, c=x, pre_activation=None, rows=2, columns=2, depth=64, has_bias=0, keeps_pre_activation=0, add=0)
    norm = dict(x=x, branch=None, weight=bias, bias=bias, mean=row, rstd=row, rows=2, width=64, adds=0, has_bias=1)
    return {
        ("activation/activation", "activation_forward", "kind"): dict(x=x, y=x, count=128),
        ("activation/activation", "activation_backward", "kind"): dict(grad_y=x, x=x, grad_x=x, count=128),
        ("linear/linear", "linear_forward", "kind"): product,
        ("linear/linear", "linear_gradient", "kind"): dict(grad_y=x, pre_activation=x, grad=x, partials=x, rows=2, columns=64, walkers=1),
        ("swiglu/swiglu", "swiglu_forward", "kind"): dict(gate_up=wide, y=x, width=64, rows=2),
        ("swiglu/swiglu", "swiglu_backward", "kind"): dict(grad_y=x, gate_up=wide, grad=wide, width=64, rows=2),
        ("layer_norm/layer_norm", "layer_norm_forward", "activation"): dict(norm, y=x, total=None, eps=1e-5),
        ("layer_norm/layer_norm", "layer_norm_backward", "activation"):
            dict(norm, grad_y=x, grad_total=None, grad_x=x, weight_partials=x, bias_partials=x, programs=1),
    }


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

    def test_kinds_have_the_numbers_of_the_table(self):
        numbers = {kind: int(re.search(r"\.triton_number = (\d+)", row)[1]) for kind, row in rows_of_table().items()}
        self.assertGreater(len(numbers), 4)
        self.assertEqual(kinds(), numbers)

    def test_kernels_have_the_kinds_that_the_table_says(self):
        table = rows_of_table()
        epilogues, gates = ([kind for kind, row in table.items() if f".{trait} = true" in row] for trait in ("is_epilogue", "is_gate"))
        for path, wanted in (("activation/activation", list(table)[1:]), ("linear/linear", epilogues), ("swiglu/swiglu", gates)):
            for name, kernel in kernels(path).items():
                with self.subTest(name):
                    self.assertEqual(set(kernel.named["kind"]), {"none"} if name in PLAIN else set(wanted))

    def test_a_kind_without_a_branch_is_refused_by_its_argument(self):
        numbers = kinds()
        for (path, name, argument), others in calls_with_kinds().items():
            kernel = kernels(path)[name]
            known = kernel.named[argument]
            for kind, number in {**numbers, "made up": MADE_UP, "unknown": -1}.items():
                with self.subTest(f"{name}, {kind}"):
                    if kind in known:
                        choose(kernel, {**others, argument: number})
                        continue
                    with self.assertRaises(ValueError) as refused:
                        choose(kernel, {**others, argument: number})
                    listed = ", ".join(f"{each} ({numbers[each]})" for each in known)
                    self.assertEqual(str(refused.exception), f"{argument} is {number}, for which this kernel has no branch, expected {listed}")

    def test_each_kind_that_a_kernel_takes_has_a_branch_of_its_own(self):
        """A number without a branch would give the results of another kind: of none in activation, and of silu in swiglu."""
        x, grad_y, gate_up = torch.randn(2, 64), torch.randn(2, 64), torch.randn(2, 128)
        given = dict(x=x, grad_y=grad_y, gate_up=gate_up, count=128, width=64, rows=2)
        for path, name, output, without_activation in (("activation/activation", "activation_forward", "y", x), ("activation/activation", "activation_backward", "grad_x", grad_y),
                                            ("swiglu/swiglu", "swiglu_forward", "y", None), ("swiglu/swiglu", "swiglu_backward", "grad", None)):  # fmt: skip
            kernel, results = kernels(path)[name], [] if without_activation is None else [without_activation]
            for number in kernel.named["kind"].values():
                result = torch.empty_like(gate_up if output == "grad" else x)
                launch(kernel, **given, kind=number, **{output: result})
                self.assertFalse(any(torch.equal(result, other) for other in results), f"{name}, number {number}")
                results.append(result)
