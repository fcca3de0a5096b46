// SPDX-License-Identifier: MIT
#include "modules/norm.h"

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/rms_norm/rms_norm.h"

namespace strata::modules {

Norm::Norm(const ParameterLookup& parameter, const std::string& name, const BlockConfig& config,
           const KernelsConfig& kernels)
    : weight_(parameter(name + ".weight")),
      bias_(config.root_mean_square ? Tensor() : parameter(name + ".bias")),
      root_mean_square_(config.root_mean_square),
      epsilon_(config.norm_epsilon),
      level_(root_mean_square_ ? kernels_for(kernels, name).rms_norm : kernels_for(kernels, name).layer_norm) {}

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
