# SPDX-License-Identifier: MIT
# Definition of linear, and the functions that level aot_inductor compiles.
from typing import Optional, Tuple

import torch


def activate(x: torch.Tensor, kind: str) -> torch.Tensor:
    if kind == "gelu":
        return x * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476))
    if kind == "gelu_tanh":
        return x * 0.5 * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    assert kind == "relu"
    return torch.relu(x)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], activation: str) -> torch.Tensor:
    rows = x.reshape(-1, weight.size(1))
    if bias is None:
        y = torch.mm(rows, weight.t())
    else:
        y = torch.addmm(bias, rows, weight.t())
    y = y.reshape(x.shape[:-1] + weight.shape[:1])
    if activation == "none":
        return y
    wide = y.to(torch.promote_types(y.dtype, torch.float32))
    return activate(wide, activation).to(x.dtype)


def wider(x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


# x is [rows, in]. Returns y, and the tensor that the activation's backward needs.
def linear_rows(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, activation: str
) -> Tuple[torch.Tensor, torch.Tensor]:
    product = torch.addmm(bias, x, weight.t())
    return activate(wider(product), activation).to(x.dtype), product


# Returns the gradient of the activation's input, and its sum over rows, which is the gradient of the bias.
def activation_gradient(
    grad_y: torch.Tensor, pre_activation: torch.Tensor, activation: str
) -> Tuple[torch.Tensor, torch.Tensor]:
    x = wider(pre_activation)
    if activation == "gelu":
        density = torch.exp(-0.5 * x * x) * 0.3989422804014327
        slope = 0.5 * (1.0 + torch.erf(x * 0.7071067811865476)) + x * density
    elif activation == "gelu_tanh":
        t = torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))
        inner = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * x * x)
        slope = 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner
    else:
        assert activation == "relu"
        slope = (x > 0.0).to(x.dtype)
    gradient = grad_y * slope
    return gradient.to(grad_y.dtype), gradient.sum(0)


def bias_gradient(gradient: torch.Tensor) -> torch.Tensor:
    return wider(gradient).sum(0)


def input_gradient(gradient: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.mm(gradient, weight)


def weight_gradient(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.mm(gradient.t(), x)
