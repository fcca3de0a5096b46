# SPDX-License-Identifier: MIT
# Definition of layer_norm, add_layer_norm and layer_norm_gelu_tanh.
from typing import Optional, Tuple

import torch


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float) -> torch.Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    centered = wide - wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    y = centered * rstd * weight
    if bias is not None:
        y = y + bias
    return y.to(x.dtype)


def add_layer_norm(
    residual: torch.Tensor, branch: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float
) -> Tuple[torch.Tensor, torch.Tensor]:
    total = residual + branch
    return layer_norm(total, weight, bias, eps), total


def layer_norm_gelu_tanh(
    x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float
) -> torch.Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    affine = layer_norm(wide, weight, bias, eps)
    inner = 0.7978845608028654 * (affine + 0.044715 * affine * affine * affine)
    return (affine * 0.5 * (1.0 + torch.tanh(inner))).to(x.dtype)
