// SPDX-License-Identifier: MIT
// A decoder-only language model: GPT-2 or Llama family, from one configuration.
#pragma once

#include <functional>
#include <vector>

#include "modules/config/kernel_selection.h"
#include "modules/config/model_config.h"
#include "modules/dropout.h"
#include "modules/layer.h"
#include "modules/norm.h"
#include "modules/transformer_block.h"

namespace strata::modules {

class Transformer {
 public:
  Transformer(const TransformerConfig& config, const KernelsConfig& kernels, const ParameterLookup& parameter);

  // Replaces each block by what `wrap` makes of it: recomputation, timing, sharding.
  void wrap_layers(const std::function<Layer(int64_t index, Layer block)>& wrap);

  // tokens int64 [B, T] -> hidden states [B, T, D] after the final norm; the head and the loss are the task's.
  Tensor operator()(const Tensor& tokens, const StepContext& context) const;

  const Tensor& head_weight() const { return head_weight_; }  // [V, D]: the embedding when tied

 private:
  Tensor token_embedding_, position_embedding_, head_weight_;  // position undefined: rotary
  kernels::Level embedding_level_, position_level_;
  Dropout embedding_dropout_;
  std::vector<Layer> blocks_;
  Norm norm_;
};

}  // namespace strata::modules
