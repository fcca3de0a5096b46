# SPDX-License-Identifier: MIT
# Definition of linear.
from typing import Optional

import torch


def activate(x: torch.Tensor, kind: str) -> torch.Tensor:
    if kind == "gelu":
        return x * 0.5 * (1.0 + torch.erf(x * 0.7071067811865476))
    if kind == "gelu_tanh":
        return x * 0.5 * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    if kind == "relu":
        return torch.clamp(x, min=0.0)
    return x


def linear(x: torch.Tensor, weight: torch.Tensor, bias: Optional[torch.Tensor], activation: str) -> torch.Tensor:
    y = torch.matmul(x, weight.t())
    if bias is not None:
        y = y + bias
    if activation == "none":
        return y
    wide = y.to(torch.promote_types(y.dtype, torch.float32))
    return activate(wide, activation).to(x.dtype)
