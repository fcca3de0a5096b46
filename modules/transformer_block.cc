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

// Without a norm, branches read the sum itself.
Norm::Output normed(const std::optional<Norm>& norm, const Stream& stream) {
  if (norm) return (*norm)(stream);
  const Tensor sum = stream.branch.defined() ? at::add(stream.residual, stream.branch) : stream.residual;
  return {sum, sum};
}

Tensor feed(const std::optional<Norm>& norm, const Norm::Output& output, const StepContext& context,
            const Norm::Function& branch) {
  return norm ? norm->feed(output, context, branch) : branch(output.y);
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
  const Norm::Output first = normed(norm1_, stream);
  // Nothing keeps the output of attention after this sum, so that its memory is free in the MLP.
  const Norm::Output second =
      normed(norm2_, {first.residual, attention_branch_(feed(norm1_, first, context, attention), context)});
  return {second.residual, mlp_branch_(feed(norm2_, second, context, mlp), context)};
}

std::vector<Layer> transformer_blocks(const Scope& model, const BlockConfig& config) {
  std::vector<Layer> blocks;
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks.emplace_back(TransformerBlock(model.layer(block_name(i)), i, config));
  }
  return blocks;
}

}  // namespace strata::modules
