# SPDX-License-Identifier: MIT
# Definition of activation and its gradient.
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
        assert kind == "silu"
        y = wide * torch.sigmoid(wide)
    return y.to(x.dtype)


def activation_backward(grad_y: torch.Tensor, x: torch.Tensor, kind: str) -> torch.Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if kind == "gelu":
        density = torch.exp(-0.5 * wide * wide) * 0.3989422804014327
        slope = 0.5 * (1.0 + torch.erf(wide * 0.7071067811865476)) + wide * density
    elif kind == "gelu_tanh":
        t = torch.tanh(0.7978845608028654 * (wide + 0.044715 * wide * wide * wide))
        inner = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * wide * wide)
        slope = 0.5 * (1.0 + t) + 0.5 * wide * (1.0 - t * t) * inner
    elif kind == "relu":
        slope = (wide > 0.0).to(wide.dtype)
    else:
        assert kind == "silu"
        gated = torch.sigmoid(wide)
        slope = gated * (1.0 + wide * (1.0 - gated))
    return (grad_y * slope).to(x.dtype)
