# SPDX-License-Identifier: MIT
# Definition of embedding.
import torch


def embedding(indices: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.embedding(weight, indices)
