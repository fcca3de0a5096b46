# SPDX-License-Identifier: MIT
# Definition of cross_entropy. N rows, V classes
from typing import Tuple

import torch


def cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, scale: torch.Tensor, ignore_index: int, label_smoothing: float
) -> torch.Tensor:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    shifted = wide - wide.detach().amax(1, keepdim=True)  # large logits and the logarithm of their sum would cancel
    log_p = shifted - torch.log(torch.exp(shifted).sum(1, keepdim=True))
    kept = targets != ignore_index
    picked = log_p.gather(1, torch.where(kept, targets, torch.zeros_like(targets)).unsqueeze(1)).squeeze(1)
    row_loss = -(1.0 - label_smoothing) * picked
    if label_smoothing != 0.0:
        row_loss = row_loss - label_smoothing * log_p.mean(1)
    return torch.where(kept, row_loss, torch.zeros_like(row_loss)).sum() * scale


# Returns the loss and its gradient: scale * (p - (1 - a) one_hot(target) - a / V), and 0 for ignored rows.
def cross_entropy_gradient(
    logits: torch.Tensor, targets: torch.Tensor, scale: torch.Tensor, ignore_index: int, label_smoothing: float
) -> Tuple[torch.Tensor, torch.Tensor]:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    shifted = wide - wide.amax(1, keepdim=True)
    # On a CPU the package adds the numbers of a row in 8 sums. In fp32 those below 2^-24 would vanish beside a 1.
    sum_dtype = torch.float64 if logits.device.type == "cpu" else wide.dtype
    log_p = shifted - torch.log(torch.exp(shifted).sum(1, keepdim=True, dtype=sum_dtype).to(wide.dtype))
    kept = targets != ignore_index
    target = torch.where(kept, targets, torch.zeros_like(targets)).unsqueeze(1)
    # A package gets label_smoothing as a tensor. If it is 0, a logit of -infinity is allowed, and 0 * -infinity is NaN.
    smoothing = torch.zeros_like(log_p[:, 0]) + label_smoothing
    row_loss = (smoothing - 1.0) * log_p.gather(1, target).squeeze(1)
    row_loss = row_loss - torch.where(smoothing != 0.0, smoothing * log_p.mean(1), torch.zeros_like(row_loss))
    loss = torch.where(kept, row_loss, torch.zeros_like(row_loss)).sum() * scale
    row_scale = torch.where(kept, scale, torch.zeros_like(scale)).unsqueeze(1)
    classes = torch.arange(logits.size(1), device=logits.device)
    picked = torch.where(classes == target, 1.0 - label_smoothing, 0.0)
    gradient = (torch.exp(log_p) - picked - label_smoothing / logits.size(1)) * row_scale
    return loss, gradient.to(logits.dtype)


def cross_entropy_backward(grad_loss: torch.Tensor, logit_gradient: torch.Tensor) -> torch.Tensor:
    return (logit_gradient * grad_loss).to(logit_gradient.dtype)
