// SPDX-License-Identifier: MIT
// Who computes which op in a run: the modules of its model, and what belongs to none of them.
#pragma once

#include <vector>

#include "modules/config/module_table.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

modules::ModuleUse module_use(const TrainerConfig& config);

// One without a name: the loss, the optimizer, and sums over what parts of a graph exchange.
modules::Module outside_of_modules(const TrainerConfig& config);

// That one first. For programs without LibTorch; the others have declared_model(), which the model itself declares.
std::vector<modules::Module> used_modules(const TrainerConfig& config);

}  // namespace strata::trainer
