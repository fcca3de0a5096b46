# SPDX-License-Identifier: MIT
# Definition of layer_norm, add_layer_norm and layer_norm_gelu_tanh. The forward saves mean and rstd = 1 / sqrt(variance
# + eps) for backward.
from typing import Optional, Tuple

import torch


def layer_norm_forward(
    x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = wide.mean(-1, keepdim=True)
    centered = wide - mean
    rstd = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + eps)
    y = centered * rstd * weight
    if bias is not None:
        y = y + bias
    return y.to(x.dtype), mean, rstd


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float) -> torch.Tensor:
    return layer_norm_forward(x, weight, bias, eps)[0]


# Returns the gradients of x, weight and bias, in the dtype of rstd.
def layer_norm_backward_wide(
    grad_y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    normed = (x.to(rstd.dtype) - mean) * rstd
    grad = grad_y.to(rstd.dtype)
    weighted = grad * weight
    average = weighted.mean(-1, keepdim=True) + normed * (weighted * normed).mean(-1, keepdim=True)
    return rstd * (weighted - average), (grad * normed).sum(0), grad.sum(0)


def layer_norm_backward(
    grad_y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grad_x, grad_weight, grad_bias = layer_norm_backward_wide(grad_y, x, weight, mean, rstd)
    return grad_x.to(x.dtype), grad_weight, grad_bias


def add_layer_norm_forward(
    residual: torch.Tensor, branch: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    total = residual + branch
    y, mean, rstd = layer_norm_forward(total, weight, bias, eps)
    return y, total, mean, rstd


def add_layer_norm(
    residual: torch.Tensor, branch: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float
) -> Tuple[torch.Tensor, torch.Tensor]:
    total = residual + branch
    return layer_norm(total, weight, bias, eps), total


def add_layer_norm_backward(
    grad_y: torch.Tensor,
    grad_sum: torch.Tensor,
    total: torch.Tensor,
    weight: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grad_total, grad_weight, grad_bias = layer_norm_backward_wide(grad_y, total, weight, mean, rstd)
    return (grad_total + grad_sum).to(total.dtype), grad_weight, grad_bias


def layer_norm_gelu_tanh_forward(
    x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    affine, mean, rstd = layer_norm_forward(wide, weight, bias, eps)
    inner = 0.7978845608028654 * (affine + 0.044715 * affine * affine * affine)
    return (affine * 0.5 * (1.0 + torch.tanh(inner))).to(x.dtype), mean, rstd


def layer_norm_gelu_tanh(
    x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], eps: float
) -> torch.Tensor:
    return layer_norm_gelu_tanh_forward(x, weight, bias, eps)[0]


def layer_norm_gelu_tanh_backward(
    grad_y: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    mean: torch.Tensor,
    rstd: torch.Tensor,
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    affine = (x.to(rstd.dtype) - mean) * rstd * weight + bias
    t = torch.tanh(0.7978845608028654 * (affine + 0.044715 * affine * affine * affine))
    inner = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * affine * affine)
    slope = 0.5 * (1.0 + t) + 0.5 * affine * (1.0 - t * t) * inner
    grad_x, grad_weight, grad_bias = layer_norm_backward_wide(grad_y * slope, x, weight, mean, rstd)
    return grad_x.to(x.dtype), grad_weight, grad_bias
