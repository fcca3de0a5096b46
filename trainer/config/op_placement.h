// SPDX-License-Identifier: MIT
// Choices of a run that move an op from one module to another, and the ops that belong to no module of its model.
#pragma once

#include "modules/config/module.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

modules::OpPlacement op_placement(const modules::ModelConfig& model, const DataConfig& data,
                                  const modules::KernelsConfig& kernels);

// A module without a name: the loss, the optimizer, and the sums over what parts of a graph exchange.
modules::DeclaredModule outside_of_modules(const modules::OpPlacement& placement, const OptimizerConfig& optimizer,
                                           int64_t ranks);

}  // namespace strata::trainer
