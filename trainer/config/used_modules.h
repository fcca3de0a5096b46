// SPDX-License-Identifier: MIT
// The modules of a run with the ops that each computes, and the ops that belong to no module.
#pragma once

#include <vector>

#include "modules/config/module_table.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

modules::ModuleUse module_use(const TrainerConfig& config);

// Returns a module without a name. Its ops are the loss, the optimizer, the gradient norm, and the sums after an
// exchange of halos.
modules::Module outside_of_modules(const TrainerConfig& config);

// Returns outside_of_modules() and then the modules of the model, for programs without LibTorch. Other programs use
// declared_model(), which the model itself declares.
std::vector<modules::Module> used_modules(const TrainerConfig& config);

}  // namespace strata::trainer
