// SPDX-License-Identifier: MIT
#include "modules/transformer_block.h"

#include "modules/config/module_name.h"

namespace strata::modules {

TransformerBlock::TransformerBlock(const Scope& scope, int64_t index, const BlockConfig& config)
    : norm1_(scope / "norm1", config),
      attention_(scope / "attention", config, index),
      attention_branch_(scope, "attention", config, index, 2 * index + 1),
      norm2_(scope / "norm2", config),
      mlp_(scope / "mlp", config),
      mlp_branch_(scope, "mlp", config, index, 2 * index + 2) {}

Stream TransformerBlock::operator()(const Stream& stream, const StepContext& context) const {
  const auto attention = [&](const Tensor& x) { return attention_(x, context); };
  const auto mlp = [&](const Tensor& x) { return mlp_(x, context); };
  const Norm::Output first = norm1_(stream);
  const Norm::Output second =
      norm2_({first.residual, attention_branch_(norm1_.feed(first, context, attention), context)});
  return {second.residual, mlp_branch_(norm2_.feed(second, context, mlp), context)};
}

std::vector<Layer> transformer_blocks(const Scope& model, const BlockConfig& config) {
  std::vector<Layer> blocks;
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks.emplace_back(TransformerBlock(model.layer(block_name(i)), i, config));
  }
  return blocks;
}

}  // namespace strata::modules
