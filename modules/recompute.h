// SPDX-License-Identifier: MIT
// Gradient checkpointing: layers save less in their forward and recompute it during backward.
#pragma once

#include "modules/layer.h"

namespace strata::modules {

// Saves only the inputs of `layer`. Gradients are equal bit for bit, also if only the layer's weights need a gradient.
// Dropout masks are a function of the place, so the second forward drops the same elements.
Layer recompute(Layer layer);

// Saves the outputs of GEMMs and of attention, and the two residual sums instead of their summands. Recomputes outputs
// of norms and activations. Gradients are the same bits if a level applies activations to the values that it stores.
// The epilogues of `triton` do not, nor the epilogues of `cuda` in a run that is not deterministic.
Layer recompute_selectively(Layer layer);

}  // namespace strata::modules
