# SPDX-License-Identifier: MIT
# Definition of swiglu and its gradient.
import torch


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    wide = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32))
    width = gate_up.size(-1) // 2
    gate = wide.narrow(-1, 0, width)
    up = wide.narrow(-1, width, width)
    return (gate * torch.sigmoid(gate) * up).to(gate_up.dtype)


# The derivative of gate * sigmoid(gate) is sigmoid(gate) * (1 + gate * (1 - sigmoid(gate))).
def swiglu_backward(grad_y: torch.Tensor, gate_up: torch.Tensor) -> torch.Tensor:
    wide = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32))
    width = gate_up.size(-1) // 2
    gate = wide.narrow(-1, 0, width)
    up = wide.narrow(-1, width, width)
    grad = grad_y.to(wide.dtype)
    gated = torch.sigmoid(gate)
    grad_gate = grad * up * gated * (1.0 + gate * (1.0 - gated))
    return torch.cat([grad_gate, grad * gate * gated], dim=-1).to(gate_up.dtype)
