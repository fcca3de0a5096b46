// SPDX-License-Identifier: MIT
// Checks of the `kernels:` section against the model whose ops it configures.
#pragma once

#include <cstdint>
#include <vector>

#include "configs/checks.h"
#include "modules/config/kernels_config.h"
#include "modules/config/module.h"

namespace strata::modules {

void check(const KernelsConfig& kernels, int64_t layers, configs::Checks& checks);

// Rules between the lines of `kernels.modules` and the modules that the model declares.
void check_modules(const KernelsConfig& kernels, const std::vector<DeclaredModule>& modules, configs::Checks& checks);

}  // namespace strata::modules
