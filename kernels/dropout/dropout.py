# SPDX-License-Identifier: MIT
# Definition of dropout. Integers are int64; every product of a 32-bit number and a constant stays within 63 bits.
# TorchScript has no hexadecimal numbers: 4294967295 = 2^32 - 1, 2654435769 = 0x9e3779b9, 2146121005 = 0x7feb352d and
# -2073254261 = 0x846ca68b - 2^32.
import torch


# On GPUs TorchScript fuses ^ and >> and duplicates a value that is used twice. Six mixes in a row became 2^18 copies of
# the first one, and compilation never finished. torch.bitwise_xor and torch.bitwise_right_shift compute the same and
# are not fused.
def mix(hash: torch.Tensor) -> torch.Tensor:
    hash = torch.bitwise_xor(hash, torch.bitwise_right_shift(hash, 16))
    hash = (hash * 2146121005) & 4294967295
    hash = torch.bitwise_xor(hash, torch.bitwise_right_shift(hash, 15))
    hash = (hash * -2073254261) & 4294967295
    return torch.bitwise_xor(hash, torch.bitwise_right_shift(hash, 16))


# x is [rows, columns]. An element is kept and multiplied by `factor` if its hash is at least `threshold`.
def dropout_rows(
    x: torch.Tensor, threshold: int, factor: float, key: torch.Tensor, site: int, first_row: int
) -> torch.Tensor:
    row = torch.arange(x.size(0), device=x.device, dtype=torch.int64) + first_row
    column = torch.arange(x.size(1), device=x.device, dtype=torch.int64)
    hash = mix((key & 4294967295) ^ 2654435769)
    hash = mix(((key >> 32) & 4294967295) ^ hash)
    hash = mix(hash ^ (site & 4294967295))
    hash = mix((row & 4294967295) ^ hash)
    hash = mix(((row >> 32) & 4294967295) ^ hash)
    column_hash = mix((column + 2654435769) & 4294967295)
    hash = mix(hash.unsqueeze(1) ^ column_hash)
    return torch.where(hash >= threshold, x * factor, torch.zeros_like(x))


def dropout(
    x: torch.Tensor, probability: float, key: torch.Tensor, site: int, first_row: int
) -> torch.Tensor:
    columns = x.size(-1)
    rows = x.reshape(x.numel() // max(columns, 1), columns)
    y = dropout_rows(rows, int(probability * 4294967296.0), 1.0 / (1.0 - probability), key, site, first_row)
    return y.reshape(x.shape)
