# SPDX-License-Identifier: MIT
# Functions of embedding that are compiled ahead of time. n indices, v rows of weight, d width
from program import Program, numbers, same

import torch


# `rows` only provides its size, because packages take tensors. Each row of grad_y is a bag of its own, so LibTorch
# sorts the indices and adds in the order of the rows.
def gradient(_, grad_y, indices, rows):
    bag = torch.arange(indices.size(0), device=indices.device)
    return torch.ops.aten._embedding_bag_dense_backward(
        grad_y, indices, bag, bag, bag, rows.size(0), scale_grad_by_freq=False, mode=0, per_sample_weights=None
    )


PROGRAMS = [
    same("embedding", ("int64[n]", "x[v,d]"), "d"),
    Program("embedding_gradient", ("x[n,d]", "int64[n]", "bool[v]"), "", gradient),
]

CALLED_BY = {"embedding": lambda shape: {"embedding": {"d": numbers(shape)[1]}, "embedding_gradient": {}}}  # "16x768 of 256"

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "bfloat16:d=768", "bfloat16:d=2048", "bfloat16:d=4096"]
