// SPDX-License-Identifier: MIT
// The norm in front of a branch: layer norm or rms norm, adding what is pending in the stream in the same pass.
#pragma once

#include <cstdint>

#include "modules/config/block_config.h"
#include "modules/layer.h"
#include "modules/scope.h"

namespace strata::modules {

class Norm {
 public:
  struct Output {
    Tensor y;         // norm(residual + branch)
    Tensor residual;  // residual + branch
  };

  struct Options {
    int64_t width;
    double epsilon;
    bool root_mean_square = false;  // rms norm, without a bias
  };
  Norm(const Scope& scope, const Options& options);
  Norm(const Scope& scope, const BlockConfig& config);

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
