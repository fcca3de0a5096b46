// SPDX-License-Identifier: MIT
// The level of each op in each layer, as a text: what `kernels.txt` says.
#pragma once

#include <string>
#include <vector>

#include "modules/config/kernels_config.h"
#include "modules/config/module_table.h"

namespace strata::modules {

// Of the ops that these modules compute. Neighboring layers with the same levels share a column; an op that has not one
// level in all modules of a layer has a row for each of them.
std::string level_table(const KernelsConfig& config, const std::vector<Module>& modules);

}  // namespace strata::modules
