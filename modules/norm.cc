// SPDX-License-Identifier: MIT
#include "modules/norm.h"

#include <c10/util/Exception.h>

#include "kernels/layer_norm/layer_norm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "modules/rematerialize.h"

namespace strata::modules {

Norm::Norm(const Scope& scope, const Options& options)
    : weight_(scope.parameter({"weight", {options.width}, Initialization::ones})),
      bias_(options.root_mean_square ? Tensor() : scope.parameter({"bias", {options.width}, Initialization::zeros})),
      root_mean_square_(options.root_mean_square),
      gelu_tanh_(options.gelu_tanh),
      epsilon_(options.epsilon),
      level_(scope.level(options.root_mean_square ? "rms_norm" : "layer_norm")) {
  TORCH_CHECK(!(root_mean_square_ && gelu_tanh_), "there is no op that computes gelu_tanh of an RMSNorm");
}

Norm::Norm(const Scope& scope, const BlockConfig& config)
    : Norm(scope,
           {.width = config.width, .epsilon = config.norm_epsilon, .root_mean_square = config.root_mean_square}) {}

Norm::Output Norm::operator()(const Stream& stream) const {
  const auto& [residual, branch] = stream;
  if (!branch.defined()) return {of_sum(residual), residual};
  TORCH_CHECK(!gelu_tanh_, "layer_norm_gelu_tanh adds no branch, and one is pending");
  const auto [y, sum] = root_mean_square_ ? kernels::add_rms_norm(residual, branch, weight_, epsilon_, level_)
                                          : kernels::add_layer_norm(residual, branch, weight_, bias_, epsilon_, level_);
  return {y, sum};
}

Tensor Norm::feed(const Output& output, const StepContext& context, const Function& branch,
                  const Function& layout) const {
  const auto arranged = [layout](const Tensor& y) { return layout ? layout(y) : y; };
  if (context.find<SelectiveRecompute>() == nullptr) return branch(arranged(output.y));
  const auto again = [norm = *this, arranged](const Tensor& sum) { return arranged(norm.of_sum(sum)); };
  return use_rematerialized({arranged(output.y), output.residual, again}, branch);
}

Tensor Norm::of_sum(const Tensor& sum) const {
  if (root_mean_square_) return kernels::rms_norm(sum, weight_, epsilon_, level_);
  return gelu_tanh_ ? kernels::layer_norm_gelu_tanh(sum, weight_, bias_, epsilon_, level_)
                    : kernels::layer_norm(sum, weight_, bias_, epsilon_, level_);
}

}  // namespace strata::modules
