# SPDX-License-Identifier: MIT
"""Runs the Triton kernels on a CPU, in Triton's interpreter, against the formula of each op in fp64 and autograd."""
import math
import unittest

from triton_interpreter import choose, formula, kernels, launch

import torch

EPSILON = 1e-5
SHAPES = [(7, 48), (5, 33), (1, 130)]
TOLERANCES = {torch.float32: 2e-6, torch.bfloat16: 6e-3, torch.float16: 8e-4}  # relative to the norm of the expected result


def relative(value, expected):
    return ((value.double() - expected.double()).norm() / expected.double().norm().clamp(min=1e-30)).item()


class KernelTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def assert_close(self, values, expected, dtype):
        for i, (value, reference) in enumerate(zip(values, expected, strict=True)):
            self.assertEqual(value.shape, reference.shape, f"value {i}")
            self.assertLess(relative(value, reference), TOLERANCES[dtype], f"value {i} of {dtype}")

    def gradients(self, function, leaves, gradients):
        """Returns the outputs of `function` in fp64 and the gradients of the leaves."""
        wide = [leaf.double().requires_grad_() for leaf in leaves]
        outputs = function(*wide)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        torch.autograd.backward(outputs, [gradient.double() for gradient in gradients])
        return [output.detach() for output in outputs], [leaf.grad for leaf in wide]

    def sum_partials(self, partials, dtype, before=None):
        into = torch.full(partials.shape[1:], float("nan"), dtype=dtype) if before is None else before.clone()
        launch(kernels("cuda/partial_sums")["sum_partials"], partials=partials, into=into, count=partials.shape[0], width=partials.shape[1],
               add=int(before is not None))
        return into


class PartialSumsTest(KernelTest):
    def test_written_and_added(self):
        for count, width in ((70, 33), (1, 40), (0, 5)):
            partials = torch.randn(count, width)
            for dtype, tolerance in TOLERANCES.items():
                self.assertLessEqual(relative(self.sum_partials(partials, dtype), partials.sum(0)), tolerance)
                before = torch.randn(width).to(dtype)
                self.assertLess(relative(self.sum_partials(partials, dtype, before), before.double() + partials.double().sum(0)), tolerance)


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


class ElementwiseTest(KernelTest):
    def test_activation(self):
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

    def test_swiglu(self):
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


class RotaryTest(KernelTest):
    def test_turned_and_turned_back(self):
        for dtype in TOLERANCES:
            for batch, positions, heads, key_value_heads, half in ((2, 3, 4, 2, 16), (1, 5, 1, 1, 5), (1, 2, 3, 1, 128)):
                qkv, grad = (torch.randn(batch, positions, (heads + 2 * key_value_heads) * 2 * half).to(dtype) for _ in range(2))
                angle = torch.rand(positions, half) * 6.28
                cosine, sine = angle.cos(), angle.sin()
                outputs, gradients = self.gradients(
                    lambda qkv: formula("rotary").rotary(qkv, cosine.double(), sine.double(), heads, key_value_heads), [qkv], [grad])
                for tensor, direction in ((qkv, 1.0), (grad, -1.0)):
                    launch(kernels("rotary/rotary")["rotary"], qkv=tensor, cosine=cosine, sine=sine, positions=positions,
                           turned_heads=heads + key_value_heads, half=half, row_width=qkv.shape[2], direction=direction, rows=batch * positions)
                self.assert_close([qkv, grad], outputs + gradients, dtype)


class RmsNormRotaryTest(KernelTest):
    def test_forward_and_backward(self):
        op, name = kernels("rms_norm_rotary/rms_norm_rotary"), "rms_norm_rotary"
        for dtype in TOLERANCES:
            for batch, positions, heads, key_value_heads, half in ((2, 3, 4, 2, 16), (1, 5, 1, 1, 5), (1, 2, 3, 1, 128), (1, 11, 3, 2, 64)):
                all_heads, rows = heads + 2 * key_value_heads, batch * positions
                qkv, grad = (torch.randn(batch, positions, all_heads * 2 * half).to(dtype) for _ in range(2))
                weights = [(1 + 0.2 * torch.randn(2 * half)).to(dtype) for _ in range(2)]
                angle = torch.rand(positions, half) * 6.28
                cosine, sine = angle.cos(), angle.sin()
                outputs, gradients = self.gradients(
                    lambda qkv, query, key: formula(name).rms_norm_rotary(qkv, query, key, cosine.double(), sine.double(), heads,
                                                                          key_value_heads, EPSILON), [qkv, *weights], [grad])
                y = torch.full_like(qkv, float("nan"))
                launch(op["rms_norm_rotary_forward"], qkv=qkv, query_weight=weights[0], key_weight=weights[1], cosine=cosine, sine=sine, y=y,
                       count=rows * all_heads, positions=positions, heads=heads, key_value_heads=key_value_heads, half=half, eps=EPSILON)
                of_weights = []
                for weight, first_head, of_row in ((weights[0], 0, heads), (weights[1], heads, key_value_heads)):
                    partials = torch.full((min(3, rows * of_row), 2 * half), float("nan"))
                    launch(op["rms_norm_rotary_backward"], gradient=grad, qkv=qkv, weight=weight, cosine=cosine, sine=sine, partials=partials,
                           count=rows * of_row, positions=positions, first_head=first_head, of_row=of_row, all_heads=all_heads, half=half,
                           eps=EPSILON, programs=partials.shape[0])
                    of_weights.append(self.sum_partials(partials, dtype))
                self.assert_close([y, grad, *of_weights], outputs + gradients, dtype)


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


class CrossEntropyTest(KernelTest):
    def run_forward(self, logits, targets, scale, smoothing, with_gradient):
        rows, width = logits.shape
        row_losses, loss = torch.empty(rows), torch.empty(())
        launch(kernels("cross_entropy/cross_entropy")["cross_entropy_forward"], logits=logits, targets=targets, scale=scale,
               row_losses=row_losses, width=width, ignore_index=-100, label_smoothing=smoothing, with_gradient=int(with_gradient), rows=rows)
        launch(kernels("cross_entropy/cross_entropy")["cross_entropy_total"], row_losses=row_losses, scale=scale, loss=loss, rows=rows)
        return loss

    def test_loss_and_gradient_in_place(self):
        scale = torch.tensor(0.125)
        for dtype in TOLERANCES:
            for rows, width, size in ((6, 16, 3.0), (5, 33, 3.0), (5, 33, 60.0), (3, 4097, 3.0), (2, 8224, 3.0)):
                for smoothing in (0.0, 0.1):
                    logits = torch.randn(rows, width).mul(size).to(dtype)
                    targets = torch.randint(0, width, (rows,))
                    targets[1] = -100
                    outputs, gradients = self.gradients(
                        lambda logits: formula("cross_entropy").cross_entropy(logits, targets, scale.double(), -100, smoothing),
                        [logits], [torch.tensor(1.0)])
                    before = logits.clone()
                    self.assert_close([self.run_forward(logits, targets, scale, smoothing, False)], outputs, torch.float32)
                    self.assertTrue(torch.equal(logits, before), "without a gradient the logits stay")
                    self.assert_close([self.run_forward(logits, targets, scale, smoothing, True)], outputs, torch.float32)
                    self.assert_close([logits], gradients, dtype)
                    for factor, in_place in ((0.5, 0), (1.0, 0), (0.5, 1), (1.0, 1)):
                        result = logits.clone() if in_place else torch.empty_like(logits)
                        launch(kernels("cross_entropy/cross_entropy")["cross_entropy_backward"], logit_gradient=result if in_place else logits,
                               grad_loss=torch.tensor(factor), result=result, count=logits.numel(), in_place=in_place, programs=2)
                        self.assert_close([result], [factor * gradients[0]], dtype)

    def test_a_class_whose_logit_is_minus_infinity(self):
        for width in (7, 33, 4097):
            logits, targets = torch.randn(3, width), torch.tensor([1, 2, -100])
            logits[:, 0] = float("-inf")
            arguments = logits.clone(), targets, torch.tensor(1.0), -100, 0.0
            loss, gradient = formula("cross_entropy").cross_entropy_gradient(*arguments[:-1], torch.tensor(0.0))  # as it is compiled
            expected = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
            self.assertTrue(gradient.isfinite().all())
            self.assert_close([loss, self.run_forward(logits, targets, torch.tensor(1.0), 0.0, True)], [expected, expected], torch.float32)
            self.assert_close([logits], [gradient], torch.float32)

    def test_a_target_that_is_no_class(self):
        loss = self.run_forward(torch.randn(2, 5), torch.tensor([1, 7]), torch.tensor(1.0), 0.0, False)
        self.assertTrue(loss.isnan())


class EmbeddingTest(KernelTest):
    def test_forward_and_backward(self):
        for dtype in TOLERANCES:
            for width in (16, 33, 300):
                indices, vocabulary = torch.randint(0, 7, (40,)), 9
                weight, grad_y = torch.randn(vocabulary, width).to(dtype), torch.randn(40, width).to(dtype)
                outputs, gradients = self.gradients(lambda weight: formula("embedding").embedding(indices, weight), [weight], [grad_y])
                y = torch.empty_like(grad_y)
                launch(kernels("embedding/embedding")["embedding_forward"], indices=indices, weight=weight, y=y, vocabulary=vocabulary,
                       width=width, rows=40)
                self.assert_close([y], outputs, dtype)
                ordered, order = indices.sort(stable=True)
                starts = torch.searchsorted(ordered, torch.arange(vocabulary + 1))
                into = torch.full_like(weight, float("nan"))
                for add, factor in ((0, 1.0), (1, 2.0)):
                    launch(kernels("embedding/embedding")["embedding_backward"], grad_y=grad_y, order=order, starts=starts, into=into,
                           width=width, add=add, vocabulary=vocabulary)
                    self.assert_close([into], [factor * gradients[0]], dtype)

    def test_an_index_outside_of_the_vocabulary(self):
        y = torch.empty(2, 4)
        launch(kernels("embedding/embedding")["embedding_forward"], indices=torch.tensor([1, 3]), weight=torch.ones(3, 4), y=y,
               vocabulary=3, width=4, rows=2)
        self.assertTrue(torch.equal(y[0], torch.ones(4)) and y[1].isnan().all())


class OptimizerTest(KernelTest):
    def test_adamw(self):
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

    def test_sum_of_squares(self):
        for dtype in TOLERANCES:
            tensors = [torch.randn(5000).to(dtype), torch.randn(15).to(dtype)]
            partials, result = torch.full((4,), float("nan"), dtype=torch.float64), torch.empty(())
            for tensor, first, programs in ((tensors[0], 0, 3), (tensors[1], 3, 1)):
                launch(kernels("sum_of_squares/sum_of_squares")["sum_of_squares_partials"], x=tensor, partials=partials, count=tensor.numel(),
                       first_partial=first, programs=programs)
            launch(kernels("sum_of_squares/sum_of_squares")["sum_of_squares_total"], partials=partials, result=result, count=4)
            self.assert_close([result], [formula("sum_of_squares").sum_of_squares([tensor.double() for tensor in tensors])], torch.float32)


if __name__ == "__main__":
    unittest.main()
