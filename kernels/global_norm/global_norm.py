# SPDX-License-Identifier: MIT
# Definition of global_norm.
from typing import List

import torch


def global_norm(gradients: List[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros([], dtype=torch.float64, device=gradients[0].device)
    for gradient in gradients:
        wide = gradient.to(torch.float64)
        total = total + (wide * wide).sum()
    return total.to(torch.promote_types(gradients[0].dtype, torch.float32))
