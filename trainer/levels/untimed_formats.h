// SPDX-License-Identifier: MIT
// Tells of linear layers that multiply in a number format although nothing has measured that they are faster so.
#pragma once

#include <string>
#include <vector>

#include "modules/config/module.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Returns a sentence about layers so narrow that others like them were measured to be slower, with the command that
// times them. It is empty if there are none, if a plan has decided, if the products are emulated, or if the run is on
// CPUs. `modules` comes from declared_model(). A plan must have been applied before, if there is one.
std::string untimed_formats(const LoadedConfig& loaded, const std::vector<modules::DeclaredModule>& modules);

}  // namespace strata::trainer
