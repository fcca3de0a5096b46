# SPDX-License-Identifier: MIT
# Definition of linear_cross_entropy. Here the logits of all rows are in memory. A softcap of 0 is none.
import torch


def linear_cross_entropy(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    scale: torch.Tensor,
    ignore_index: int,
    label_smoothing: float,
    softcap: float,
) -> torch.Tensor:
    logits = torch.mm(hidden, weight.t())
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if softcap != 0.0:
        wide = softcap * torch.tanh(wide / softcap)
    shifted = wide - wide.detach().amax(1, keepdim=True)
    log_p = shifted - torch.log(torch.exp(shifted).sum(1, keepdim=True))
    kept = targets != ignore_index
    picked = log_p.gather(1, torch.where(kept, targets, torch.zeros_like(targets)).unsqueeze(1)).squeeze(1)
    row_loss = -(1.0 - label_smoothing) * picked
    if label_smoothing != 0.0:
        row_loss = row_loss - label_smoothing * log_p.mean(1)
    return torch.where(kept, row_loss, torch.zeros_like(row_loss)).sum() * scale
