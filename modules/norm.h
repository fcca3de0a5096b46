// SPDX-License-Identifier: MIT
// The norm before a branch: LayerNorm or RMSNorm. It adds the pending branch of the stream in the same pass.
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
    bool root_mean_square = false;  // RMSNorm without a bias
  };
  Norm(const Scope& scope, const Options& options);
  Norm(const Scope& scope, const BlockConfig& config);

  at::ScalarType type() const { return weight_.scalar_type(); }

  Output operator()(const Stream& stream) const;
  // Computes y again from Output::residual. The bits are the same, because every level normalizes the rounded sum.
  Tensor of_sum(const Tensor& sum) const;

 private:
  Tensor weight_, bias_;  // bias undefined: RMSNorm
  bool root_mean_square_;
  double epsilon_;
  kernels::Level level_;
};

}  // namespace strata::modules
