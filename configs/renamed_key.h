// SPDX-License-Identifier: MIT
// A key that has a new name.
#pragma once

#include <string>

namespace strata::configs {

// Both are paths without list indices, such as `kernels.layers.only`, of the same section.
struct RenamedKey {
  std::string was, now;
};

}  // namespace strata::configs
