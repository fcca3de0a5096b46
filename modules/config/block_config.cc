// SPDX-License-Identifier: MIT
#include "modules/config/block_config.h"

#include "kernels/attention/pattern/parse_pattern.h"

namespace strata::modules {

BlockConfig block_config(const TransformerConfig& model) {
  const bool llama = model.family == Family::llama;
  return {.layers = model.layers,
          .width = model.width,
          .heads = model.heads,
          .key_value_heads = model.key_value_head_count(),
          .feed_forward = model.feed_forward_width(),
          .root_mean_square = llama,
          .norm_epsilon = model.norm_epsilon,
          .biases = !llama,
          .rotary = llama,
          .attention = kernels::parse_pattern(model.attention),
          .gated = llama,
          .activation = llama ? kernels::Activation::none : kernels::Activation::gelu_tanh,
          .dropout = model.dropout};
}

BlockConfig block_config(const VisionTransformerConfig& model) {
  return {.layers = model.layers,
          .width = model.width,
          .heads = model.heads,
          .key_value_heads = model.heads,
          .feed_forward = model.feed_forward_width(),
          .norm_epsilon = model.norm_epsilon,
          .biases = true,
          .activation = kernels::Activation::gelu,
          // A deviation of 0.02 would be far too small for the narrow models of small images.
          .inner_initialization = Initialization::by_inputs,
          .last_initialization = Initialization::by_inputs,
          .dropout = model.dropout,
          .stochastic_depth = model.stochastic_depth,
          .layer_scale = model.layer_scale};
}

}  // namespace strata::modules
