// SPDX-License-Identifier: MIT
// What a message names where a value must be a multiple of another.
#pragma once

#include <cstdint>
#include <string>

namespace strata::configs {

// Returns the positive multiples of `divisor` next to `value`, which is none: "nearest that are: 16 and 24", or "the
// nearest is 8" if none is smaller.
inline std::string nearest_multiples(int64_t value, int64_t divisor) {
  const int64_t below = value / divisor * divisor;
  return (below > 0 ? "nearest that are: " + std::to_string(below) + " and " : "the nearest is ") +
         std::to_string(below + divisor);
}

}  // namespace strata::configs
