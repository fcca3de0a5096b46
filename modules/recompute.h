// SPDX-License-Identifier: MIT
// Gradient checkpointing: layers that keep less from their forward and compute it again during backward.
#pragma once

#include "modules/layer.h"

namespace strata::modules {

// Keeps its inputs only. Gradients equal those of `layer` bit for bit, also where the layer's inputs need no gradient
// themselves: its weights do. Dropout masks are a function of the place, so the second forward drops the same elements.
Layer recompute(Layer layer);

// Keeps outputs of GEMMs and of attention, and the two sums of the residual in the place of what was added to them;
// makes outputs of norms and activations again. Gradients are the same bits where levels take an activation of what
// they store: all but the epilogues of `triton`, and of `cuda` in a run that is not deterministic.
Layer recompute_selectively(Layer layer);

}  // namespace strata::modules
