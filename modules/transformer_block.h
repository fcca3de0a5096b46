// SPDX-License-Identifier: MIT
// A transformer block, shared by language models and vision transformers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "modules/attention.h"
#include "modules/layer.h"
#include "modules/mlp.h"
#include "modules/norm.h"
#include "modules/residual_branch.h"
#include "modules/scope.h"

namespace strata::modules {

// residual += attention(norm1(residual)); residual += mlp(norm2(residual)). The last sum stays pending in the stream.
// With norm_placement after, there is no norm1 and no norm2, and branches end in norms; with both, they have both.
class TransformerBlock {
 public:
  TransformerBlock(const Scope& scope, int64_t index, const BlockConfig& config);

  ResidualStream operator()(const ResidualStream& stream, const StepContext& context) const;

 private:
  bool leaves_norms_to_products(const Tensor& residual) const;
  ResidualStream generate_token(const ResidualStream& stream, const StepContext& context) const;

  // The order in which the parameters of the block are declared.
  std::optional<Norm> norm1_;
  Attention attention_;
  ResidualBranch attention_branch_;
  std::optional<Norm> norm2_;
  Mlp mlp_;
  ResidualBranch mlp_branch_;
};

// Returns the blocks of a model, each as a layer of its own.
std::vector<Layer> transformer_blocks(const Scope& model, const BlockConfig& config);

}  // namespace strata::modules
