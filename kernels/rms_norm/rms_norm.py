# SPDX-License-Identifier: MIT
# Definition of rms_norm and add_rms_norm.
from typing import Tuple

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    rstd = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight).to(x.dtype)


def add_rms_norm(
    residual: torch.Tensor, branch: torch.Tensor, weight: torch.Tensor, eps: float
) -> Tuple[torch.Tensor, torch.Tensor]:
    total = residual + branch
    return rms_norm(total, weight, eps), total
