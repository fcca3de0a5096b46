// SPDX-License-Identifier: MIT
// The level of every op for one module, resolved from the `kernels:` section before the model is built.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "kernels/runtime/level.h"
#include "modules/config/kernels_config.h"

namespace strata::modules {

using KernelSelection = PerOp<kernels::Level>;

// A key of `kernels:` and the level that it sets.
struct ChosenLevel {
  std::string path;  // kernels.layers.0.attention
  // Absent: no key sets one. kernels.default is best and no plan was read, or the op is linear_cross_entropy.
  std::optional<kernels::Level> level;

  kernels::Level or_aten() const { return level.value_or(kernels::Level::aten); }
};

// Returns the key that decides about an op in a module. `op` is a key in `kernels:`; the function throws for any other
// name.
ChosenLevel chosen_level(const KernelsConfig& config, std::string_view module, std::string_view op);

// Returns the level of one op in one module, as chosen_level does. Throws if kernels.default is best and no
// plan was read.
kernels::Level level_for(const KernelsConfig& config, std::string_view module, std::string_view op);

// Returns the levels of all ops in `module`, which is a full name, or empty for loss and optimizer. An op that nothing
// selects runs at aten.
KernelSelection kernels_for(const KernelsConfig& config, std::string_view module);

// Calls visit(prefix, levels) for each part of `kernels:` that applies to the module, except the default. The last call
// wins. Example: visit("kernels.modules.0.", levels).
void for_each_line(const KernelsConfig& config, std::string_view module,
                   const std::function<void(const std::string& prefix, const OpLevels& levels)>& visit);

// Returns the ops that a line of `kernels:` sets to this level: a line for all modules, for layers or for some modules.
// kernels.default is no such line.
std::set<std::string> ops_set_to(const KernelsConfig& config, kernels::Level level);

// True if `kernels:` names a level that compiles in its first calls, as the default or in a line.
bool compiles_in_first_calls(const KernelsConfig& config);

// True if `kernels.modules` sets `linear` for the head. The head is then not fused into linear_cross_entropy, even if
// the plan would do it.
bool has_line_for_head(const KernelsConfig& config);

}  // namespace strata::modules
