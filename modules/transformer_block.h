// SPDX-License-Identifier: MIT
// A pre-norm transformer block, shared by language models and vision transformers.
#pragma once

#include <cstdint>
#include <vector>

#include "modules/attention.h"
#include "modules/layer.h"
#include "modules/mlp.h"
#include "modules/norm.h"
#include "modules/residual_branch.h"
#include "modules/scope.h"

namespace strata::modules {

// residual += attention(norm1(residual)); residual += mlp(norm2(residual)). The last sum stays pending in the stream.
class TransformerBlock {
 public:
  TransformerBlock(const Scope& scope, int64_t index, const BlockConfig& config);

  Stream operator()(const Stream& stream, const StepContext& context) const;

 private:
  // The order in which the parameters of the block are declared.
  Norm norm1_;
  Attention attention_;
  ResidualBranch attention_branch_;
  Norm norm2_;
  Mlp mlp_;
  ResidualBranch mlp_branch_;
};

// Returns the blocks of a model, each as a layer of its own.
std::vector<Layer> transformer_blocks(const Scope& model, const BlockConfig& config);

}  // namespace strata::modules
