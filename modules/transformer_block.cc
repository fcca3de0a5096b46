// SPDX-License-Identifier: MIT
#include "modules/transformer_block.h"

#include "modules/config/module_name.h"
#include "modules/made_again.h"

namespace strata::modules {

TransformerBlock::TransformerBlock(const ParameterLookup& parameter, int64_t index, const BlockConfig& config,
                                   const KernelsConfig& kernels)
    : norm1_(parameter, block_name(index) + ".norm1", config, kernels),
      norm2_(parameter, block_name(index) + ".norm2", config, kernels),
      attention_(parameter, block_name(index) + ".attention", config, kernels),
      mlp_(parameter, block_name(index) + ".mlp", config, kernels),
      attention_branch_(parameter, block_name(index) + ".attention", config, index, 2 * index + 1, kernels),
      mlp_branch_(parameter, block_name(index) + ".mlp", config, index, 2 * index + 2, kernels) {}

Stream TransformerBlock::operator()(const Stream& stream, const StepContext& context) const {
  const auto branch = [&](const Norm& norm, const Norm::Output& normed, const auto& use) {
    if (context.find<MakeCheapAgain>() == nullptr) return use(normed.y);
    const auto again = [norm](const Tensor& sum) { return norm.of_sum(sum); };
    return use_without_keeping({normed.y, normed.residual, again}, use);
  };
  const Norm::Output first = norm1_(stream);
  const auto attend = [&](const Tensor& x) { return attention_(x, context); };
  const Norm::Output second = norm2_({first.residual, attention_branch_(branch(norm1_, first, attend), context)});
  const auto feed = [&](const Tensor& x) { return mlp_(x, context); };
  return {second.residual, mlp_branch_(branch(norm2_, second, feed), context)};
}

}  // namespace strata::modules
