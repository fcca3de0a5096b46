# SPDX-License-Identifier: MIT
# Definition of adamw: returns the new master, first moment and second moment.
from typing import Tuple

import torch


def adamw(
    master: torch.Tensor,
    first_moment: torch.Tensor,
    second_moment: torch.Tensor,
    gradient: torch.Tensor,
    learning_rate: torch.Tensor,
    step: torch.Tensor,
    gradient_scale: torch.Tensor,
    skip: torch.Tensor,
    beta1: float,
    beta2: float,
    epsilon: float,
    weight_decay: float,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    g = gradient.to(master.dtype) * gradient_scale
    first = beta1 * first_moment + (1.0 - beta1) * g
    second = beta2 * second_moment + (1.0 - beta2) * g * g
    first_correction = 1.0 - torch.pow(beta1, step.to(torch.float64))
    second_correction = torch.sqrt(1.0 - torch.pow(beta2, step.to(torch.float64)))
    rate = learning_rate.to(torch.float64)
    update = (rate / first_correction) * first / (torch.sqrt(second) / second_correction + epsilon)
    new = master * (1.0 - rate * weight_decay) - update
    kept = skip != 0.0
    return torch.where(kept, master, new), torch.where(kept, first_moment, first), torch.where(kept, second_moment, second)
