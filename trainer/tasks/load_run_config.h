// SPDX-License-Identifier: MIT
// load_trainer_config for programs that construct the model: names of modules are checked against the model itself.
#pragma once

#include <string>
#include <vector>

#include "trainer/config/load_config.h"

namespace strata::trainer {

// Throws configs::ConfigErrors as load_trainer_config does, and if a line of kernels.modules or precision.modules names
// no module of the model, or an op that its modules do not compute.
LoadedConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides);

// The second half of it.
void check_modules(const LoadedConfig& loaded);

}  // namespace strata::trainer
