// SPDX-License-Identifier: MIT
#include "trainer/config/module_use.h"

#include "trainer/config/graph_data_facts.h"

namespace strata::trainer {

modules::ModuleUse module_use(const modules::ModelConfig& model, const DataConfig& data,
                              const modules::KernelsConfig& kernels) {
  return {.head_and_loss_are_one = kernels.levels.linear_cross_entropy.has_value(),
          .features_are_aggregated_once = shares_samples(model, data)};
}

modules::Module outside_of_modules(const modules::ModuleUse& use, const OptimizerConfig& optimizer, int64_t ranks) {
  const std::string_view loss = use.head_and_loss_are_one ? "linear_cross_entropy" : "cross_entropy";
  modules::Module none{"", "", {loss, optimizer.op(), "sum_of_squares"}};
  if (use.features_are_aggregated_once && ranks > 1) none.ops.emplace_back("neighbor_aggregate");
  return none;
}

}  // namespace strata::trainer
