# SPDX-License-Identifier: MIT
# Definition of activation.
import torch


def activation(x: torch.Tensor, kind: str) -> torch.Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if kind == "gelu":
        y = wide * 0.5 * (1.0 + torch.erf(wide * 0.7071067811865476))
    elif kind == "gelu_tanh":
        y = wide * 0.5 * (1.0 + torch.tanh(0.7978845608028654 * (wide + 0.044715 * wide * wide * wide)))
    elif kind == "relu":
        y = torch.relu(wide)
    else:
        y = wide * torch.sigmoid(wide)
    return y.to(x.dtype)
