// SPDX-License-Identifier: MIT
#include "trainer/config/module_use.h"

#include "trainer/config/graph_data_facts.h"

namespace strata::trainer {

modules::ModuleUse module_use(const TrainerConfig& config) {
  return {.head_and_loss_are_one = config.kernels.levels.linear_cross_entropy.has_value(),
          .features_are_aggregated_once = shares_samples(config.model, config.data)};
}

modules::Module outside_of_modules(const TrainerConfig& config) {
  const bool fused = module_use(config).head_and_loss_are_one;
  modules::Module none{
      "", "", {fused ? "linear_cross_entropy" : "cross_entropy", config.optimizer.op(), "global_norm"}};
  if (shares_samples(config.model, config.data) && config.run.ranks > 1) none.ops.emplace_back("neighbor_aggregate");
  return none;
}

}  // namespace strata::trainer
