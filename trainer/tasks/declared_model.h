// SPDX-License-Identifier: MIT
// Groups and modules of a run's model, as its own constructors declare them. No data are read for it.
#pragma once

#include <vector>

#include "modules/config/module.h"
#include "modules/config/parameter_group.h"
#include "modules/layer.h"
#include "modules/scope.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

struct DeclaredModel {
  std::vector<modules::ParameterGroup> groups;   // parameters are in the order of their declaration
  std::vector<modules::DeclaredModule> modules;  // outside_of_modules() first
};

DeclaredModel declared_model(const TrainerConfig& config);

// Constructs the model in this scope, and passes each of its layers to `wrap`. Layers may outlive the model.
void construct_model(const TrainerConfig& config, const modules::Scope& scope, const modules::WrapLayer& wrap);

// The groups alone, which depend on nothing else of a run.
std::vector<modules::ParameterGroup> declared_groups(const modules::ModelConfig& model);

}  // namespace strata::trainer
