# SPDX-License-Identifier: MIT
"""Linear layers of peer_decoder.py in FP8, by the package torchao, as torchtitan has them."""
import dataclasses

import torch._inductor.config
from peer_timing import DEVICE
from torch import nn

# One scale for a tensor, or one for each row and column. Both are computed from the values at hand.
RECIPES = ("tensorwise", "rowwise")
PACKAGE = "torchao==0.17.0"  # it goes with PyTorch 2.11


def multiply_in_fp8(blocks, recipe):
    """Replaces each nn.Linear of the blocks. Their parameters stay the same objects. Returns how many layers it has replaced."""
    try:
        from torchao.float8 import Float8LinearConfig, convert_to_float8_training
    except ImportError as error:
        raise SystemExit(f"--fp8 needs the package torchao, which cannot be imported ({error}); get it with: pip install --no-deps {PACKAGE}") from None
    config = Float8LinearConfig.from_recipe_name(recipe)
    if DEVICE == "cpu":
        config = dataclasses.replace(config, emulate=True)
    # torchtitan sets it for this recipe: compiled kernels then round as each op does alone.
    torch._inductor.config.emulate_precision_casts = recipe == "rowwise"
    before = [module for module in blocks.modules() if isinstance(module, nn.Linear)]
    convert_to_float8_training(blocks, config=config)
    return sum(module not in before for module in blocks.modules() if isinstance(module, nn.Linear))
