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
        return torch.relu(x)
    return x


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
