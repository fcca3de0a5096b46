// SPDX-License-Identifier: MIT
// A pre-norm transformer block, shared by language models and vision transformers.
#pragma once

#include "modules/attention.h"
#include "modules/mlp.h"
#include "modules/norm.h"
#include "modules/residual_branch.h"

namespace strata::modules {

// residual += attention(norm1(residual)); residual += mlp(norm2(residual)), the last sum left pending in the stream.
class TransformerBlock {
 public:
  TransformerBlock(const ParameterLookup& parameter, int64_t index, const BlockConfig& config,
                   const KernelsConfig& kernels);

  Stream operator()(const Stream& stream, const StepContext& context) const;

 private:
  Norm norm1_, norm2_;
  Attention attention_;
  Mlp mlp_;
  ResidualBranch attention_branch_, mlp_branch_;
};

}  // namespace strata::modules
