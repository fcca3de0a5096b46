# SPDX-License-Identifier: MIT
"""KernelTest: what tests of Triton kernels in the interpreter share."""
import unittest

from triton_interpreter import kernels, launch

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
