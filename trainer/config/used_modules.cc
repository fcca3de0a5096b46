// SPDX-License-Identifier: MIT
#include "trainer/config/used_modules.h"

#include <utility>

#include "trainer/config/graph_data.h"

namespace strata::trainer {

modules::ModuleUse module_use(const TrainerConfig& config) {
  return {.head_and_loss_are_one = config.kernels.levels.linear_cross_entropy.has_value(),
          .features_are_gathered_once = shares_samples(config.model, config.data)};
}

modules::Module outside_of_modules(const TrainerConfig& config) {
  const bool fused = module_use(config).head_and_loss_are_one;
  modules::Module none{"", "", {fused ? "linear_cross_entropy" : "cross_entropy", "adamw", "global_norm"}};
  if (shares_samples(config.model, config.data) && config.run.ranks > 1) none.ops.emplace_back("neighbor_aggregate");
  return none;
}

std::vector<modules::Module> used_modules(const TrainerConfig& config) {
  std::vector<modules::Module> all = {outside_of_modules(config)};
  for (modules::Module& module : modules::module_table(config.model, module_use(config))) {
    all.push_back(std::move(module));
  }
  return all;
}

}  // namespace strata::trainer
