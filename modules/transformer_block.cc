// SPDX-License-Identifier: MIT
#include "modules/transformer_block.h"

#include <string>

namespace strata::modules {
namespace {

std::string block_name(int64_t index) { return "blocks." + std::to_string(index); }

}  // namespace

TransformerBlock::TransformerBlock(const ParameterLookup& parameter, int64_t index, const BlockConfig& config,
                                   const KernelSelection& kernels)
    : norm1_(parameter, block_name(index) + ".norm1", config, kernels),
      norm2_(parameter, block_name(index) + ".norm2", config, kernels),
      attention_(parameter, block_name(index) + ".attention", config, kernels),
      mlp_(parameter, block_name(index) + ".mlp", config, kernels),
      attention_branch_(parameter, block_name(index) + ".attention_scale.weight", config, index, 2 * index + 1,
                        kernels),
      mlp_branch_(parameter, block_name(index) + ".mlp_scale.weight", config, index, 2 * index + 2, kernels) {}

Stream TransformerBlock::operator()(const Stream& stream, const StepContext& context) const {
  const auto [x, residual] = norm1_(stream);
  const auto [y, sum] = norm2_({residual, attention_branch_(attention_(x, context), context)});
  return {sum, mlp_branch_(mlp_(y), context)};
}

}  // namespace strata::modules
