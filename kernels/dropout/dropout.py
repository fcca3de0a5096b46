# SPDX-License-Identifier: MIT
# Definition of dropout. Integers are int64; every product of a 32-bit number and a constant stays below 2^63.
import torch


def mix(hash: torch.Tensor) -> torch.Tensor:
    hash = hash ^ (hash >> 16)
    hash = (hash * 0x7FEB352D) & 0xFFFFFFFF
    hash = hash ^ (hash >> 15)
    hash = (hash * (0x846CA68B - 0x100000000)) & 0xFFFFFFFF
    return hash ^ (hash >> 16)


def dropout(
    x: torch.Tensor, probability: float, key: torch.Tensor, site: int, first_row: int
) -> torch.Tensor:
    columns = x.size(-1)
    rows = x.numel() // max(columns, 1)
    row = torch.arange(rows, device=x.device, dtype=torch.int64) + first_row
    column = torch.arange(columns, device=x.device, dtype=torch.int64)
    hash = mix((key & 0xFFFFFFFF) ^ 0x9E3779B9)
    hash = mix(((key >> 32) & 0xFFFFFFFF) ^ hash)
    hash = mix(hash ^ (site & 0xFFFFFFFF))
    hash = mix((row & 0xFFFFFFFF) ^ hash)
    hash = mix(((row >> 32) & 0xFFFFFFFF) ^ hash)
    column_hash = mix((column + 0x9E3779B9) & 0xFFFFFFFF)
    hash = mix(hash.unsqueeze(1) ^ column_hash)
    kept = (hash >= int(probability * 4294967296.0)).reshape(x.shape)
    return torch.where(kept, x * (1.0 / (1.0 - probability)), torch.zeros_like(x))
