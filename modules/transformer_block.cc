// SPDX-License-Identifier: MIT
#include "modules/transformer_block.h"

#include <string>

namespace strata::modules {
namespace {

std::string block_name(int64_t index) { return "blocks." + std::to_string(index); }

}  // namespace

TransformerBlock::TransformerBlock(const ParameterLookup& parameter, int64_t index, const TransformerConfig& config,
                                   bool causal, const KernelSelection& kernels)
    : norm1_(parameter, block_name(index) + ".norm1", config, kernels),
      norm2_(parameter, block_name(index) + ".norm2", config, kernels),
      attention_(parameter, block_name(index) + ".attention", config, causal, kernels),
      mlp_(parameter, block_name(index) + ".mlp", config, kernels),
      attention_dropout_(config.dropout, 2 * index + 1, kernels.dropout),
      mlp_dropout_(config.dropout, 2 * index + 2, kernels.dropout) {}

Stream TransformerBlock::operator()(const Stream& stream, const StepContext& context) const {
  const auto [x, residual] = norm1_(stream);
  const auto [y, sum] = norm2_({residual, attention_dropout_(attention_(x, context), context)});
  return {sum, mlp_dropout_(mlp_(y), context)};
}

}  // namespace strata::modules
