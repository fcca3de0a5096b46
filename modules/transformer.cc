// SPDX-License-Identifier: MIT
#include "modules/transformer.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>

#include "kernels/embedding/embedding.h"

namespace strata::modules {

Transformer::Transformer(const TransformerConfig& config, const KernelsConfig& kernels,
                         const ParameterLookup& parameter)
    : token_embedding_(parameter("embedding.weight")),
      position_embedding_(config.family == Family::llama ? Tensor() : parameter("position.weight")),
      head_weight_(config.tied ? token_embedding_ : parameter("head.weight")),
      embedding_level_(kernels_for(kernels, "embedding").embedding),
      position_level_(kernels_for(kernels, "position").embedding),
      embedding_dropout_(config.dropout, 0, kernels_for(kernels, "embedding").dropout),
      norm_(parameter, "norm", block_config(config), kernels) {
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks_.emplace_back(TransformerBlock(parameter, i, block_config(config), kernels));
  }
}

void Transformer::wrap_layers(const std::function<Layer(int64_t index, Layer block)>& wrap) {
  for (size_t i = 0; i < blocks_.size(); ++i) blocks_[i] = wrap(static_cast<int64_t>(i), std::move(blocks_[i]));
}

Tensor Transformer::operator()(const Tensor& tokens, const StepContext& context) const {
  Tensor x = kernels::embedding(tokens, token_embedding_, embedding_level_);
  if (position_embedding_.defined()) {
    const Tensor positions = at::arange(tokens.size(1), tokens.options()).unsqueeze(0);  // [1, T]
    x = at::add(x, kernels::embedding(positions, position_embedding_, position_level_));
  }
  Stream stream{embedding_dropout_(x, context), {}};
  for (const Layer& block : blocks_) stream = block(stream, context);
  return norm_(in_type(stream, norm_.type())).y;
}

}  // namespace strata::modules
