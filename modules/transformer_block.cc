// SPDX-License-Identifier: MIT
#include "modules/transformer_block.h"

#include "modules/config/module_name.h"

namespace strata::modules {
namespace {

std::optional<Norm> first_norm(const Scope& scope, const BlockConfig& config) {
  if (config.norm_placement == NormPlacement::after) return {};
  return Norm(scope, config);
}

// Without a norm, branches read the sum itself.
Norm::Output normed(const std::optional<Norm>& norm, const ResidualStream& stream) {
  if (norm) return (*norm)(stream);
  const Tensor sum = stream.sum();
  return {sum, sum};
}

Tensor run_branch(const std::optional<Norm>& norm, const Norm::Output& output, const StepContext& context,
                  const Norm::Function& branch) {
  return norm ? norm->run_branch(output, context, branch) : branch(output.y);
}

}  // namespace

TransformerBlock::TransformerBlock(const Scope& scope, int64_t index, const BlockConfig& config)
    : norm1_(first_norm(scope / "norm1", config)),
      attention_(scope / "attention", config, index),
      attention_branch_(scope, "attention", config, index, 2 * index + 1),
      norm2_(first_norm(scope / "norm2", config)),
      mlp_(scope / "mlp", config),
      mlp_branch_(scope, "mlp", config, index, 2 * index + 2) {}

bool TransformerBlock::leaves_norms_to_products(const Tensor& residual) const {
  return norm1_ && norm1_->may_be_left_to_product() && norm2_->may_be_left_to_product() &&
         attention_.can_fuse_norm(residual) && mlp_.can_fuse_norm(residual);
}

// A step of generation has no kernels for its norms. Each would take 3 us on an H200, as long as 13 MB of weights.
ResidualStream TransformerBlock::generate_token(const ResidualStream& stream, const StepContext& context) const {
  const auto [attended, middle] = attention_.forward_from_unnormed(norm1_->left_to_product(stream), context);
  const auto [y, residual] =
      mlp_.forward_from_unnormed(norm2_->left_to_product({middle, attention_branch_(attended, context)}));
  return {residual, mlp_branch_(y, context)};
}

// The lines after the first compute what generate_token() computes, with other kernels, so a change here must be made
// there too. DecoderOnGpu.CapturedStepsAreTheSame in tests/tools compares generate_token() on a GPU with these lines on
// the CPU.
ResidualStream TransformerBlock::operator()(const ResidualStream& stream, const StepContext& context) const {
  if (leaves_norms_to_products(stream.residual)) return generate_token(stream, context);
  const auto attention = [&](const Tensor& x) { return attention_(x, context); };
  const auto mlp = [&](const Tensor& x) { return mlp_(x, context); };
  const Norm::Output first = normed(norm1_, stream);
  // Nothing keeps the output of attention after this sum, so that its memory is free in the MLP.
  const Norm::Output second =
      normed(norm2_, {first.residual, attention_branch_(run_branch(norm1_, first, context, attention), context)});
  return {second.residual, mlp_branch_(run_branch(norm2_, second, context, mlp), context)};
}

std::vector<Layer> transformer_blocks(const Scope& model, const BlockConfig& config) {
  std::vector<Layer> blocks;
  for (int64_t i = 0; i < config.layers; ++i) {
    blocks.emplace_back(TransformerBlock(model.layer(block_name(i)), i, config));
  }
  return blocks;
}

}  // namespace strata::modules
