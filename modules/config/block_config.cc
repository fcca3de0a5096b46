// SPDX-License-Identifier: MIT
#include "modules/config/block_config.h"

#include "modules/config/layer_patterns.h"

namespace strata::modules {
namespace {

std::vector<kernels::Pattern> patterns_of(const TransformerConfig& model) {
  std::vector<kernels::Pattern> patterns(static_cast<size_t>(model.layers));
  for (const auto& [pattern, layers] : layers_by_pattern(model)) {
    for (const int64_t layer : layers) patterns[static_cast<size_t>(layer)] = pattern;
  }
  return patterns;
}

// The number of the rotary positions of each layer in layers_by_rotary().
std::vector<int64_t> rotary_of(const TransformerConfig& model) {
  if (!model.has_rotary_positions()) return {};
  std::vector<int64_t> numbers(static_cast<size_t>(model.layers));
  const std::vector<LayersOfRotary> all = layers_by_rotary(model);
  for (size_t i = 0; i < all.size(); ++i) {
    for (const int64_t layer : all[i].layers) numbers[static_cast<size_t>(layer)] = static_cast<int64_t>(i);
  }
  return numbers;
}

kernels::Activation activation_of(Gate gate) {
  switch (gate) {
    case Gate::silu:
      return kernels::Activation::silu;
    case Gate::gelu_tanh:
      return kernels::Activation::gelu_tanh;
  }
  return kernels::Activation::none;  // unreachable: the switch is complete
}

}  // namespace

BlockConfig block_config(const TransformerConfig& model) {
  const bool llama = is_llama(model.family);
  return {.layers = model.layers,
          .width = model.width,
          .heads = model.heads,
          .key_value_heads = model.key_value_heads_or_default(),
          .head_width = model.head_width_or_default(),
          .feed_forward = model.feed_forward_or_default(),
          .root_mean_square = llama,
          .norm_placement = model.norm_placement,
          .norm_epsilon = model.norm_epsilon,
          .biases = !llama,
          .qkv_biases = !llama || model.qkv_biases,
          .query_key_norm = model.query_key_norm,
          .rotary = rotary_of(model),
          .attention = patterns_of(model),
          .score_terms = model.score_terms(),
          .gated = llama,
          .activation = llama ? activation_of(model.gate) : kernels::Activation::gelu_tanh,
          .dropout = model.dropout};
}

BlockConfig block_config(const VisionTransformerConfig& model) {
  return {.layers = model.layers,
          .width = model.width,
          .heads = model.heads,
          .key_value_heads = model.heads,
          .head_width = model.head_width(),
          .feed_forward = model.feed_forward_or_default(),
          .norm_epsilon = model.norm_epsilon,
          .biases = true,
          .qkv_biases = true,
          .attention = std::vector(static_cast<size_t>(model.layers), kernels::Pattern{}),
          .activation = kernels::Activation::gelu,
          // A deviation of 0.02 would be far too small for the narrow models of small images.
          .inner_initialization = Initialization::scaled_by_inputs,
          .last_initialization = Initialization::scaled_by_inputs,
          .dropout = model.dropout,
          .stochastic_depth = model.stochastic_depth,
          .layer_scale = model.layer_scale};
}

}  // namespace strata::modules
