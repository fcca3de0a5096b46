# SPDX-License-Identifier: MIT
# Definition of sum_of_squares.
from typing import List

import torch


def add_squares(total: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    wide = gradient.to(torch.float64)
    return total + (wide * wide).sum()


def sum_of_squares(gradients: List[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros([], dtype=torch.float64, device=gradients[0].device)
    for gradient in gradients:
        total = add_squares(total, gradient)
    return total.to(torch.promote_types(gradients[0].dtype, torch.float32))
