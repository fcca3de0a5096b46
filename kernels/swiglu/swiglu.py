# SPDX-License-Identifier: MIT
# Definition of swiglu.
import torch


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    wide = gate_up.to(torch.promote_types(gate_up.dtype, torch.float32))
    width = gate_up.size(-1) // 2
    gate = wide.narrow(-1, 0, width)
    up = wide.narrow(-1, width, width)
    return (gate * torch.sigmoid(gate) * up).to(gate_up.dtype)
