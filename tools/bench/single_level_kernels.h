// SPDX-License-Identifier: MIT
// One level for all ops of a model or a module. An op that lacks it runs at level aten.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "kernels/level_matrix.h"
#include "kernels/runtime/level.h"
#include "modules/config/kernels_config.h"

namespace strata::tools {

struct SingleLevelKernels {
  modules::KernelsConfig kernels;
  bool is_absent = false;   // all ops lack the level
  std::string reason = {};  // why the first op that lacks it does; empty: none lacks it
};

// `ops` are keys of `kernels:`.
SingleLevelKernels single_level_kernels(kernels::Level level, const std::set<std::string_view>& ops,
                                        const kernels::Target& target);

}  // namespace strata::tools
