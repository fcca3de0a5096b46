// SPDX-License-Identifier: MIT
// The norm in front of a branch: layer norm or rms norm, adding what is pending in the stream in the same pass.
#pragma once

#include <string>

#include "modules/config/block_config.h"
#include "modules/config/kernel_selection.h"
#include "modules/layer.h"
#include "modules/parameters.h"

namespace strata::modules {

class Norm {
 public:
  struct Output {
    Tensor y;         // norm(residual + branch)
    Tensor residual;  // residual + branch
  };

  Norm(const ParameterLookup& parameter, const std::string& name, const BlockConfig& config,
       const KernelsConfig& kernels);

  at::ScalarType type() const { return weight_.scalar_type(); }

  Output operator()(const Stream& stream) const;
  // y of a `residual` that was put out: the same bits, because every level norms the rounded sum.
  Tensor of_sum(const Tensor& sum) const;

 private:
  Tensor weight_, bias_;  // bias undefined: rms norm
  bool root_mean_square_;
  double epsilon_;
  kernels::Level level_;
};

}  // namespace strata::modules
