# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of rotary in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


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
                           rotated_heads=heads + key_value_heads, half=half, row_width=qkv.shape[2], direction=direction, rows=batch * positions)
                self.assert_close([qkv, grad], outputs + gradients, dtype)
