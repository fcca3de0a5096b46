// SPDX-License-Identifier: MIT
// Groups and modules of a run's model, as its own constructors declare them. No data are read for it.
#pragma once

#include <vector>

#include "modules/config/module.h"
#include "modules/config/parameter_group.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

struct DeclaredModel {
  std::vector<modules::ParameterGroup> groups;  // parameters are in the order of their declaration
  std::vector<modules::Module> modules;         // outside_of_modules() first
};

DeclaredModel declared_model(const TrainerConfig& config);

// The groups alone, which depend on nothing else of a run.
std::vector<modules::ParameterGroup> declared_groups(const modules::ModelConfig& model);

}  // namespace strata::trainer
