// SPDX-License-Identifier: MIT
// The multiples that a message proposes for a value that is no multiple.
#pragma once

#include <cstdint>
#include <string>

namespace strata::configs {

// Returns the positive multiples of `divisor` next to `value`, which is not a multiple: "nearest that are: 16 and 24".
// If none is smaller: "the nearest is 8".
inline std::string nearest_multiples(int64_t value, int64_t divisor) {
  const int64_t below = value / divisor * divisor;
  return (below > 0 ? "nearest that are: " + std::to_string(below) + " and " : "the nearest is ") +
         std::to_string(below + divisor);
}

}  // namespace strata::configs
