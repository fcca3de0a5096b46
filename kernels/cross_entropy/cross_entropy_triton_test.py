# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of cross_entropy in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


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
