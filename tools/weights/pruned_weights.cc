// SPDX-License-Identifier: MIT
#include "tools/weights/pruned_weights.h"

#include <algorithm>
#include <vector>

#include "kernels/sparsity/prune.h"
#include "modules/config/sparsity_config.h"
#include "trainer/config/scalar_type.h"
#include "trainer/tasks/declared_model.h"

namespace strata::tools {

PrunedWeights::PrunedWeights(const trainer::TrainerConfig& config, int64_t step) {
  if (!config.sparsity.is_on_in(step)) return;
  mask_ = config.sparsity.mask;
  const trainer::DeclaredModel model = trainer::declared_model(config);
  const std::vector<std::string> names = modules::pruned_weights(config.sparsity, model.modules);
  for (const modules::ParameterGroup& group : model.groups) {
    for (const modules::Parameter& parameter : group.parameters) {
      if (std::ranges::find(names, parameter.name) == names.end()) continue;
      computed_in_[parameter.name] = trainer::scalar_type(config.precision.compute_of(group.name));
    }
  }
}

bool PrunedWeights::sees_whole(const std::string& name) const {
  return mask_ == kernels::PruneMask::transposable && computed_in_.contains(name);
}

at::Tensor PrunedWeights::operator()(const std::string& name, const at::Tensor& rows) const {
  const auto found = computed_in_.find(name);
  if (found == computed_in_.end()) return rows;
  const at::Tensor groups = mask_ == kernels::PruneMask::rows ? rows.reshape({-1, kernels::kPruneGroup}) : rows;
  const at::Tensor kept = kernels::kept_of_four(groups.to(found->second), mask_);
  return groups.masked_fill(kept.logical_not_(), 0).view(rows.sizes());
}

}  // namespace strata::tools
