// SPDX-License-Identifier: MIT
// A pre-norm transformer block, shared by language models and vision transformers.
#pragma once

#include "modules/attention.h"
#include "modules/dropout.h"
#include "modules/mlp.h"
#include "modules/norm.h"

namespace strata::modules {

// residual += attention(norm1(residual)); residual += mlp(norm2(residual)), the last sum left pending in the stream.
class TransformerBlock {
 public:
  TransformerBlock(const ParameterLookup& parameter, int64_t index, const TransformerConfig& config, bool causal,
                   const KernelSelection& kernels);

  Stream operator()(const Stream& stream, const StepContext& context) const;

 private:
  Norm norm1_, norm2_;
  Attention attention_;
  Mlp mlp_;
  Dropout attention_dropout_, mlp_dropout_;
};

}  // namespace strata::modules
