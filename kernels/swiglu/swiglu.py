# SPDX-License-Identifier: MIT
# Definition of swiglu and its gradient.
import torch


def swiglu(gate_up: torch.Tensor, kind: str) -> torch.Tensor:
    wide = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32))
    width = gate_up.size(-1) // 2
    gate = wide.narrow(-1, 0, width)
    up = wide.narrow(-1, width, width)
    if kind == "gelu_tanh":
        y = gate * 0.5 * (1.0 + torch.tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate))) * up
    else:
        assert kind == "silu"
        y = gate * torch.sigmoid(gate) * up
    return y.to(gate_up.dtype)


def swiglu_backward(grad_y: torch.Tensor, gate_up: torch.Tensor, kind: str) -> torch.Tensor:
    wide = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32))
    width = gate_up.size(-1) // 2
    gate = wide.narrow(-1, 0, width)
    up = wide.narrow(-1, width, width)
    grad = grad_y.to(wide.dtype)
    if kind == "gelu_tanh":
        t = torch.tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate))
        inner = 0.7978845608028654 * (1.0 + 3.0 * 0.044715 * gate * gate)
        share = 0.5 * (1.0 + t)
        grad_gate = grad * up * (share + 0.5 * gate * (1.0 - t * t) * inner)
    else:
        # The derivative of gate * sigmoid(gate) is sigmoid(gate) * (1 + gate * (1 - sigmoid(gate))).
        assert kind == "silu"
        share = torch.sigmoid(gate)
        grad_gate = grad * up * share * (1.0 + gate * (1.0 - share))
    return torch.cat([grad_gate, grad * gate * share], dim=-1).to(gate_up.dtype)
