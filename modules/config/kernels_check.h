// SPDX-License-Identifier: MIT
// Checks of the `kernels:` section against the model whose ops it configures.
#pragma once

#include <cstdint>
#include <vector>

#include "configs/checks.h"
#include "modules/config/kernels_config.h"
#include "modules/config/module_table.h"

namespace strata::modules {

void check(const KernelsConfig& kernels, int64_t layers, const std::vector<Module>& modules, configs::Checks& checks);

}  // namespace strata::modules
