// SPDX-License-Identifier: MIT
// The share of samples that go without the branches of a block.
#pragma once

#include <cstdint>

#include "modules/config/block_config.h"

namespace strata::modules {

// timm's rule (LayerScale paper and DeiT): nothing is left out of the first block, and linearly more of those after it.
inline double share_left_out(const BlockConfig& config, int64_t layer) {
  if (config.layers < 2) return config.stochastic_depth;
  return config.stochastic_depth * static_cast<double>(layer) / static_cast<double>(config.layers - 1);
}

}  // namespace strata::modules
