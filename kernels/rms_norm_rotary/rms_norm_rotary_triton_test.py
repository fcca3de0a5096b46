# SPDX-License-Identifier: MIT
"""Runs the Triton kernels of rms_norm_rotary in Triton's interpreter, against the formula in fp64 and autograd."""
from kernel_case import EPSILON, TOLERANCES, KernelTest
from triton_interpreter import formula, kernels, launch

import torch


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
                weight_gradients = []
                for weight, first_head, heads_per_row in ((weights[0], 0, heads), (weights[1], heads, key_value_heads)):
                    partials = torch.full((min(3, rows * heads_per_row), 2 * half), float("nan"))
                    launch(op["rms_norm_rotary_backward"], gradient=grad, qkv=qkv, weight=weight, cosine=cosine, sine=sine, partials=partials,
                           count=rows * heads_per_row, positions=positions, first_head=first_head, heads_per_row=heads_per_row, all_heads=all_heads, half=half,
                           eps=EPSILON, programs=partials.shape[0])
                    weight_gradients.append(self.sum_partials(partials, dtype))
                self.assert_close([y, grad, *weight_gradients], outputs + gradients, dtype)
