// SPDX-License-Identifier: MIT
// Who computes which op in a run: the modules of its model, and what belongs to none of them.
#pragma once

#include <vector>

#include "modules/config/module_table.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// First one without a name: the loss, the optimizer, and sums over what parts of a graph exchange.
std::vector<modules::Module> used_modules(const TrainerConfig& config);

}  // namespace strata::trainer
