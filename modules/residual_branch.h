// SPDX-License-Identifier: MIT
// A norm, dropout, LayerScale and stochastic depth: applied to the output of attention or mlp before it is added to the
// stream.
#pragma once

#include <optional>
#include <string>

#include "modules/config/block_config.h"
#include "modules/dropout.h"
#include "modules/norm.h"
#include "modules/scope.h"

namespace strata::modules {

class ResidualBranch {
 public:
  // `module` is attention or mlp, the part of the block whose output this is. `site` numbers the branches of a model
  // from 1.
  ResidualBranch(const Scope& block, const std::string& module, const BlockConfig& config, int64_t layer, int64_t site);

  Tensor operator()(Tensor branch, const StepContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
  std::optional<Norm> norm_;  // with norm_placement after or both
  Tensor scale_;              // [D]; undefined: no LayerScale
  Dropout dropout_;
  double left_out_;  // share of samples that skip this branch
  int64_t depth_site_;
  kernels::Level dropout_level_;
};

}  // namespace strata::modules
