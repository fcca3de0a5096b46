// SPDX-License-Identifier: MIT
#include "modules/transformer_block.h"

#include <ATen/ops/add.h>

#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

std::optional<Norm> first_norm(const Scope& scope, const BlockConfig& config) {
  if (config.norm_placement == NormPlacement::after) return {};
  return Norm(scope, config);
}

// Returns the sum of the stream, and branch(norm(sum)) beside it. Without a norm the branch reads the sum.
Stream with_branch(const Stream& stream, const std::optional<Norm>& norm, const StepContext& context,
                   const Norm::Function& branch) {
  if (!norm) {
    const Tensor sum = stream.branch.defined() ? at::add(stream.residual, stream.branch) : stream.residual;
    return {sum, branch(sum)};
  }
  const Norm::Output output = (*norm)(stream);
  return {output.residual, norm->feed(output, context, branch)};
}

}  // namespace

TransformerBlock::TransformerBlock(const Scope& scope, int64_t index, const BlockConfig& config)
    : norm1_(first_norm(scope / "norm1", config)),
      attention_(scope / "attention", config, index),
      attention_branch_(scope, "attention", config, index, 2 * index + 1),
      norm2_(first_norm(scope / "norm2", config)),
      mlp_(scope / "mlp", config),
      mlp_branch_(scope, "mlp", config, index, 2 * index + 2) {}

Stream TransformerBlock::operator()(const Stream& stream, const StepContext& context) const {
  const auto attention = [&](const Tensor& x) { return attention_(x, context); };
  const auto mlp = [&](const Tensor& x) { return mlp_(x, context); };
  const Stream first = with_branch(stream, norm1_, context, attention);
  const Stream second = with_branch({first.residual, attention_branch_(first.branch, context)}, norm2_, context, mlp);
  return {second.residual, mlp_branch_(second.branch, context)};
}

std::vector<Layer> transformer_blocks(const Scope& model, const BlockConfig& config) {
  std::vector<Layer> blocks;
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks.emplace_back(TransformerBlock(model.layer(block_name(i)), i, config));
  }
  return blocks;
}

}  // namespace strata::modules
