// SPDX-License-Identifier: MIT
#include "modules/transformer_block.h"

#include "modules/config/module_name.h"
#include "modules/rematerialize.h"

namespace strata::modules {

TransformerBlock::TransformerBlock(const Scope& scope, int64_t index, const BlockConfig& config)
    : norm1_(scope / "norm1", config),
      attention_(scope / "attention", config),
      attention_branch_(scope, "attention", config, index, 2 * index + 1),
      norm2_(scope / "norm2", config),
      mlp_(scope / "mlp", config),
      mlp_branch_(scope, "mlp", config, index, 2 * index + 2) {}

Stream TransformerBlock::operator()(const Stream& stream, const StepContext& context) const {
  const auto branch = [&](const Norm& norm, const Norm::Output& normed, const auto& use) {
    if (context.find<SelectiveRecompute>() == nullptr) return use(normed.y);
    const auto again = [norm](const Tensor& sum) { return norm.of_sum(sum); };
    return use_rematerialized({normed.y, normed.residual, again}, use);
  };
  const Norm::Output first = norm1_(stream);
  const auto attend = [&](const Tensor& x) { return attention_(x, context); };
  const Norm::Output second = norm2_({first.residual, attention_branch_(branch(norm1_, first, attend), context)});
  const auto feed = [&](const Tensor& x) { return mlp_(x, context); };
  return {second.residual, mlp_branch_(branch(norm2_, second, feed), context)};
}

std::vector<Layer> transformer_blocks(const Scope& model, const BlockConfig& config) {
  std::vector<Layer> blocks;
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks.emplace_back(TransformerBlock(model.layer(block_name(i)), i, config));
  }
  return blocks;
}

}  // namespace strata::modules
