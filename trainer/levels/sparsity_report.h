// SPDX-License-Identifier: MIT
// sparsity_report: the table of pruned layers of a run.
#pragma once

#include <string>
#include <vector>

#include "modules/config/level_report.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// Returns modules::sparsity_table() with the types of the run. Empty if no layer is pruned.
inline std::string sparsity_report(const TrainerConfig& config, const std::vector<modules::DeclaredModule>& modules) {
  return modules::sparsity_table(config.kernels, config.sparsity, modules, [&](const std::string& group) {
    return config.precision.compute_of(group) == FloatType::bfloat16;
  });
}

}  // namespace strata::trainer
