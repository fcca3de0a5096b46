// SPDX-License-Identifier: MIT
// Groups and modules of a run's model, as its own constructors declare them. No data are read for it.
#pragma once

#include <vector>

#include "modules/config/module_table.h"
#include "modules/config/parameter_table.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

struct DeclaredModel {
  // Groups are in the order of the model, parameters in the order of their flat buffer.
  std::vector<modules::ParameterGroup> groups;
  std::vector<modules::Module> modules;  // as in used_modules(): the first one has no name
};

DeclaredModel declared_model(const TrainerConfig& config);

}  // namespace strata::trainer
