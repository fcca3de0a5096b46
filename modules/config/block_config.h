// SPDX-License-Identifier: MIT
// What a transformer block is made of, whichever kind of model it belongs to.
#pragma once

#include <cstdint>

#include "kernels/activation/activation_kind.h"
#include "modules/config/model_config.h"
#include "modules/config/parameter.h"

namespace strata::modules {

struct BlockConfig {
  int64_t layers = 0;  // of the model
  int64_t width = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t feed_forward = 0;
  bool root_mean_square = false;  // rms norm without a bias, or layer norm
  double norm_epsilon = 0;
  bool biases = false;  // in projections
  bool rotary = false;
  bool causal = false;
  bool gated = false;  // swiglu, or `activation` between two projections
  kernels::Activation activation = kernels::Activation::none;
  // First values of projections: of those that start a residual branch, and of those that end it.
  Initialization inner_initialization = Initialization::normal;
  Initialization last_initialization = Initialization::residual;
  double dropout = 0;
  double stochastic_depth = 0;  // of the last block
  double layer_scale = 0;       // first value; 0: none

  int64_t head_width() const { return width / heads; }
};

BlockConfig block_config(const TransformerConfig& model);
BlockConfig block_config(const VisionTransformerConfig& model);

}  // namespace strata::modules
