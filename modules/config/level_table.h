// SPDX-License-Identifier: MIT
// Formats the level of each op, and the number format and the sparsity of each product in each layer as a text: the
// content of `kernels.txt`.
#pragma once

#include <string>
#include <vector>

#include "modules/config/kernels_config.h"
#include "modules/config/linear_formats_config.h"
#include "modules/config/module.h"
#include "modules/config/sparsity_config.h"

namespace strata::modules {

// Lists the ops that these modules compute. Neighboring layers with the same levels share a column. An op with
// different levels in the modules of one layer has one row per module.
std::string level_table(const KernelsConfig& config, const std::vector<Module>& modules);

// Lists the number formats of linear layers in the same way, and says which are emulated. Empty if no module has one.
std::string format_table(const KernelsConfig& config, const LinearFormatsConfig& formats,
                         const std::vector<Module>& modules);

// Lists the linear layers with a pruned weight in the same way. All are emulated. Empty if there is none.
std::string sparsity_table(const SparsityConfig& sparsity, const std::vector<Module>& modules);

}  // namespace strata::modules
