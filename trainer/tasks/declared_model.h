// SPDX-License-Identifier: MIT
// What the model of a run is made of, as its own constructors declare it. No data are read for it.
#pragma once

#include <vector>

#include "modules/config/module_table.h"
#include "modules/config/parameter_table.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

struct DeclaredModel {
  std::vector<modules::ParameterGroup> groups;  // in the order of the model; parameters in that of their flat buffer
  std::vector<modules::Module> modules;         // as used_modules() has them: the first one has no name
};

DeclaredModel declared_model(const TrainerConfig& config);

}  // namespace strata::trainer
