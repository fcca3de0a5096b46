// SPDX-License-Identifier: MIT
// Gradient checkpointing: a layer that keeps its inputs only and runs its forward again during backward.
#pragma once

#include "modules/layer.h"

namespace strata::modules {

// Gradients equal those of `layer` bit for bit, also where the layer's inputs need no gradient themselves: its weights
// do. Dropout masks are a function of the place, so the second forward drops the same elements.
Layer recompute(Layer layer);

}  // namespace strata::modules
