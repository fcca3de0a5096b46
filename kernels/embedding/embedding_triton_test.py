# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of embedding in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


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
