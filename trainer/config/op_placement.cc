// SPDX-License-Identifier: MIT
#include "trainer/config/op_placement.h"

#include "trainer/config/graph_data_facts.h"

namespace strata::trainer {

modules::OpPlacement op_placement(const modules::ModelConfig& model, const DataConfig& data,
                                  const modules::KernelsConfig& kernels) {
  return {.has_fused_head = kernels.levels.linear_cross_entropy.has_value(),
          .features_are_aggregated_once = shares_samples(model, data)};
}

modules::DeclaredModule outside_of_modules(const modules::OpPlacement& placement, const OptimizerConfig& optimizer,
                                           int64_t ranks) {
  const std::string_view loss = placement.has_fused_head ? "linear_cross_entropy" : "cross_entropy";
  modules::DeclaredModule unnamed{"", "", {loss, optimizer.op(), "sum_of_squares"}};
  if (placement.features_are_aggregated_once && ranks > 1) unnamed.ops.emplace_back("neighbor_aggregate");
  return unnamed;
}

}  // namespace strata::trainer
