// SPDX-License-Identifier: MIT
// What happens to the output of attention or mlp before it is added to the stream: dropout, LayerScale, stochastic
// depth.
#pragma once

#include <string>

#include "modules/config/block_config.h"
#include "modules/config/kernel_selection.h"
#include "modules/dropout.h"
#include "modules/parameters.h"

namespace strata::modules {

class ResidualBranch {
 public:
  // `name`: of the module whose output it is; `site` numbers the branches of a model from 1.
  ResidualBranch(const ParameterLookup& parameter, const std::string& name, const BlockConfig& config, int64_t layer,
                 int64_t site, const KernelsConfig& kernels);

  Tensor operator()(Tensor branch, const StepContext& context) const;  // [B, T, D] -> [B, T, D]

 private:
  Tensor scale_;  // [D]; undefined: no LayerScale
  Dropout dropout_;
  double left_out_;  // share of samples that go without this branch
  int64_t depth_site_;
  kernels::Level dropout_level_;
};

}  // namespace strata::modules
