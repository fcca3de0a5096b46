// SPDX-License-Identifier: MIT
// Checks that each op of a run has a kernel at its level on the device of the run, and that attention takes its
// patterns there, before anything is computed or written.
#pragma once

#include <vector>

#include "kernels/level_matrix.h"
#include "modules/config/module.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Throws configs::ConfigErrors with every wrong line of `kernels:`. A line is wrong if a level does not exist for an
// op or does not take the pattern of a layer, or if no module that the line names computes the op. A plan must have
// been applied before. `modules` comes from declared_model(). A key of `kernels:` is the name of an op, and the other
// ops that it covers have the same levels.
void check_levels(const LoadedConfig& loaded, const std::vector<modules::DeclaredModule>& modules,
                  const kernels::Target& target);

}  // namespace strata::trainer
