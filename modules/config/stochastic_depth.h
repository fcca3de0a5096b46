// SPDX-License-Identifier: MIT
// The share of samples that skip the residual branches of a block.
#pragma once

#include <cstdint>

#include "modules/config/block_config.h"

namespace strata::modules {

// timm's rule (LayerScale paper and DeiT): the first block skips nothing, and the share grows linearly up to the last
// block.
inline double share_left_out(const BlockConfig& config, int64_t layer) {
  if (config.layers < 2) return config.stochastic_depth;
  return config.stochastic_depth * static_cast<double>(layer) / static_cast<double>(config.layers - 1);
}

}  // namespace strata::modules
