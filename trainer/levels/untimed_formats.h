// SPDX-License-Identifier: MIT
// Tells of linear layers that multiply in a number format although nothing has measured that they are faster so.
#pragma once

#include <string>
#include <vector>

#include "modules/config/module.h"
#include "trainer/config/load_config.h"

namespace strata::trainer {

// Returns a sentence, or an empty text if a plan has decided, if none of the products is one of the tensor cores, or if
// the run is on CPUs. It names the layers that are narrower than any that was measured to be faster, and the command
// that times them. `modules` are those of declared_model(). A plan must have been applied before, if there is one.
std::string untimed_formats(const LoadedConfig& loaded, const std::vector<modules::Module>& modules);

}  // namespace strata::trainer
