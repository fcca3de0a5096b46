# SPDX-License-Identifier: MIT
# Definition of rms_norm and add_rms_norm. The forward saves rstd = 1 / sqrt(mean(x^2) + eps) for backward.
from typing import Tuple

import torch


def rms_norm_forward(x: torch.Tensor, weight: torch.Tensor, eps: float) -> Tuple[torch.Tensor, torch.Tensor]:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    rstd = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight).to(x.dtype), rstd


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return rms_norm_forward(x, weight, eps)[0]


def rms_norm_backward(
    grad_y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor]:
    normed = x.to(rstd.dtype) * rstd
    grad = grad_y.to(rstd.dtype)
    weighted = grad * weight
    grad_x = rstd * (weighted - normed * (weighted * normed).mean(-1, keepdim=True))
    return grad_x.to(x.dtype), (grad * normed).sum(0)


def add_rms_norm_forward(
    residual: torch.Tensor, branch: torch.Tensor, weight: torch.Tensor, eps: float
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    total = residual + branch
    y, rstd = rms_norm_forward(total, weight, eps)
    return y, total, rstd


def add_rms_norm(
    residual: torch.Tensor, branch: torch.Tensor, weight: torch.Tensor, eps: float
) -> Tuple[torch.Tensor, torch.Tensor]:
    y, total, _ = add_rms_norm_forward(residual, branch, weight, eps)
    return y, total


def add_rms_norm_backward(
    grad_y: torch.Tensor, grad_sum: torch.Tensor, total: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor]:
    normed = total.to(rstd.dtype) * rstd
    grad = grad_y.to(rstd.dtype)
    weighted = grad * weight
    grad_total = rstd * (weighted - normed * (weighted * normed).mean(-1, keepdim=True)) + grad_sum
    return grad_total.to(total.dtype), (grad * normed).sum(0)
