// SPDX-License-Identifier: MIT
#include "trainer/config/used_modules.h"

#include <utility>

#include "trainer/config/graph_data.h"

namespace strata::trainer {

std::vector<modules::Module> used_modules(const TrainerConfig& config) {
  const bool fused = config.kernels.levels.linear_cross_entropy.has_value();
  modules::Module none{"", "", {fused ? "linear_cross_entropy" : "cross_entropy", "adamw", "global_norm"}};
  const bool whole_graph = shares_samples(config.model, config.data);
  if (whole_graph && config.run.ranks > 1) none.ops.emplace_back("neighbor_aggregate");
  std::vector<modules::Module> all = {none};
  const modules::ModuleUse use{.head_and_loss_are_one = fused, .features_are_gathered_once = whole_graph};
  for (modules::Module& module : modules::module_table(config.model, use)) all.push_back(std::move(module));
  return all;
}

}  // namespace strata::trainer
