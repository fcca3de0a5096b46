// SPDX-License-Identifier: MIT
#include "modules/residual_branch.h"

#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>

#include "kernels/runtime/gradient_destination.h"

namespace strata::modules {
namespace {

Tensor layer_scale(const Scope& scope, const BlockConfig& config) {
  if (config.layer_scale <= 0) return {};
  return scope.parameter({"weight", {config.width}, Initialization::constant, config.layer_scale});
}

std::optional<Norm> last_norm(const Scope& scope, const BlockConfig& config) {
  if (config.norm_placement == NormPlacement::before) return {};
  return Norm(scope, config);
}

// Returns the share of samples that skip the branches of a block, by timm's rule (LayerScale paper and DeiT): the first
// block skips nothing, and the share grows linearly up to the last block.
double share_left_out(const BlockConfig& config, int64_t layer) {
  if (config.layers < 2) return config.stochastic_depth;
  return config.stochastic_depth * static_cast<double>(layer) / static_cast<double>(config.layers - 1);
}

}  // namespace

ResidualBranch::ResidualBranch(const Scope& block, const std::string& module, const BlockConfig& config, int64_t layer,
                               int64_t site)
    : norm_(last_norm(block / (module + "_norm"), config)),
      scale_(layer_scale(block / (module + "_scale"), config)),
      dropout_(block / module, config.dropout, site),
      left_out_(share_left_out(config, layer)),
      depth_site_(-site),
      dropout_level_(left_out_ > 0 ? (block / module).level("dropout") : kernels::Level::aten) {}

Tensor ResidualBranch::operator()(Tensor branch, const StepContext& context) const {
  if (norm_) branch = norm_->normalize_sum(branch);
  branch = dropout_(branch, context);
  if (scale_.defined()) branch = at::mul(branch, kernels::with_gradient_destination(scale_));
  if (left_out_ == 0 || !context.dropout_key.defined()) return branch;
  // Stochastic depth is dropout of one number per sample: 0, or 1 / (1 - left_out_), which keeps the mean.
  const int64_t batch = branch.size(0), first_sample = context.first_row / branch.size(1);
  const Tensor ones = at::ones({batch, 1, 1}, branch.options().dtype(at::kFloat));
  const Tensor sample_scale =
      kernels::dropout(ones, left_out_, context.dropout_key, depth_site_, first_sample, dropout_level_);
  return at::mul(branch, sample_scale).to(branch.scalar_type());
}

}  // namespace strata::modules
