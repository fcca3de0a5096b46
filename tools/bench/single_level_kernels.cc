// SPDX-License-Identifier: MIT
#include "tools/bench/single_level_kernels.h"

#include <c10/util/Exception.h>

#include <cstddef>
#include <optional>

namespace strata::tools {

using kernels::Level;

SingleLevelKernels single_level_kernels(Level level, const std::set<std::string_view>& ops,
                                        const kernels::Target& target) {
  SingleLevelKernels found{.kernels = {.default_level = level}};
  size_t absent = 0;
  found.kernels.levels.each([&](std::string_view op, std::optional<Level>& chosen) {
    if (!ops.contains(op)) return;
    try {
      kernels::require_level("level " + std::string(name(level)), op, level, target);
    } catch (const c10::Error& error) {
      chosen = Level::aten;
      if (absent++ == 0) found.reason = error.what_without_backtrace();
    }
  });
  found.is_absent = absent == ops.size();
  return found;
}

}  // namespace strata::tools
