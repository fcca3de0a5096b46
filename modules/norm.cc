// SPDX-License-Identifier: MIT
#include "modules/norm.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/rms_norm/rms_norm.h"

namespace strata::modules {

Norm::Norm(const Scope& scope, const Options& options)
    : weight_(scope.parameter({"weight", {options.width}, Initialization::ones})),
      bias_(options.root_mean_square ? Tensor() : scope.parameter({"bias", {options.width}, Initialization::zeros})),
      root_mean_square_(options.root_mean_square),
      epsilon_(options.epsilon),
      level_(scope.level(options.root_mean_square ? "rms_norm" : "layer_norm")) {}

Norm::Norm(const Scope& scope, const BlockConfig& config)
    : Norm(scope,
           {.width = config.width, .epsilon = config.norm_epsilon, .root_mean_square = config.root_mean_square}) {}

Norm::Output Norm::operator()(const Stream& stream) const {
  const auto& [residual, branch] = stream;
  if (!branch.defined()) return {of_sum(residual), residual};
  const auto [y, sum] = root_mean_square_ ? kernels::add_rms_norm(residual, branch, weight_, epsilon_, level_)
                                          : kernels::add_layer_norm(residual, branch, weight_, bias_, epsilon_, level_);
  return {y, sum};
}

Tensor Norm::of_sum(const Tensor& sum) const {
  return root_mean_square_ ? kernels::rms_norm(sum, weight_, epsilon_, level_)
                           : kernels::layer_norm(sum, weight_, bias_, epsilon_, level_);
}

}  // namespace strata::modules
