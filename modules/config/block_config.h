// SPDX-License-Identifier: MIT
// The sizes and options of a transformer block, of language models and vision transformers.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/activation/activation_kind.h"
#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/score_terms.h"
#include "modules/config/model_config.h"
#include "modules/config/parameter_group.h"

namespace strata::modules {

struct BlockConfig {
  int64_t layers = 0;  // number of blocks in the model
  int64_t width = 0;
  int64_t heads = 0;
  int64_t key_value_heads = 0;
  int64_t head_width = 0;
  int64_t feed_forward = 0;
  bool root_mean_square = false;  // true: RMSNorm without a bias; false: LayerNorm
  NormPlacement norm_placement = NormPlacement::before;
  double norm_epsilon = 0;
  bool biases = false;      // all projections have a bias, apart from the one below
  bool qkv_biases = false;  // the projection of queries, keys and values has a bias
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  std::vector<int64_t> rotary = {};              // number of the RotaryTables of each layer; empty: none
  std::vector<kernels::Pattern> attention = {};  // pattern of each layer
  kernels::ScoreTerms score_terms = {};
  bool gated = false;  // true: swiglu with a gate of `activation`; false: `activation` between two projections
  kernels::Activation activation = kernels::Activation::none;
  // Initialization of the projections that start a residual branch, and of those that end it.
  Initialization inner_initialization = Initialization::normal;
  Initialization last_initialization = Initialization::residual;
  double dropout = 0;
  double stochastic_depth = 0;  // probability for the last block
  double layer_scale = 0;       // initial value; 0: no LayerScale
};

BlockConfig block_config(const TransformerConfig& model);
BlockConfig block_config(const VisionTransformerConfig& model);

}  // namespace strata::modules
