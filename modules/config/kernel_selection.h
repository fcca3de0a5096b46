// SPDX-License-Identifier: MIT
// The level of every op for one module, resolved from the `kernels:` section before the model is built.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "kernels/runtime/level.h"
#include "modules/config/kernels_config.h"

namespace strata::modules {

using KernelSelection = PerOp<kernels::Level>;

// The level of one op, by its key in `kernels:`, for one module. Throws for a key that no op has.
kernels::Level level_for(const KernelsConfig& config, std::string_view module, std::string_view op);

// `module`: its full name; empty for what belongs to none, loss and optimizer. Ops that nobody asks for are at aten.
KernelSelection kernels_for(const KernelsConfig& config, std::string_view module);

// Everything that is said about a module besides the default, the last word last: look("kernels.modules.0.", levels).
void for_each_line(const KernelsConfig& config, std::string_view module,
                   const std::function<void(const std::string& prefix, const OpLevels& levels)>& look);

// A line says how the head multiplies: it is no part of linear_cross_entropy then, whatever a plan says.
bool has_line_for_head(const KernelsConfig& config);

}  // namespace strata::modules
