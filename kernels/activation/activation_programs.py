# SPDX-License-Identifier: MIT
# Functions of activation that are compiled ahead of time, one per kind and direction. The elements are viewed as rows
# of c.
from program import LANES, Program


def forward(kind):
    return Program(f"{kind}_forward", ("x[n,c]",), "c", lambda formula, x: formula.activation(x, kind))


def backward(kind):
    return Program(
        f"{kind}_backward", ("x[n,c]",) * 2, "c", lambda formula, grad_y, x: formula.activation_backward(grad_y, x, kind)
    )


PROGRAMS = [make(kind) for kind in ("gelu", "gelu_tanh", "relu", "silu") for make in (forward, backward)]


def functions_of_kind(shape):  # "16x768 silu"
    kind = shape.split()[-1]
    return dict.fromkeys((f"{kind}_forward", f"{kind}_backward"), LANES)


# With gradient_checkpointing selective, a gelu that linear computed is recomputed by activation.
def recomputed(shape):  # "16x768->3072 gelu_tanh bias"
    return {f"{word}_forward": LANES for word in shape.split() if word in ("gelu", "gelu_tanh")}


CALLED_BY = {"activation": functions_of_kind, "linear": recomputed}

# Widths of the proof's cases and of the shipped configurations.
GPU_WIDTHS = ["*", "c=16"]
