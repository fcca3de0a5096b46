// SPDX-License-Identifier: MIT
// An inclusive range of whole numbers: `3-7`, or `3` alone.
#pragma once

#include <cstdint>
#include <string>

namespace strata::configs {

struct Range {
  int64_t first = 0, last = 0;

  bool contains(int64_t value) const { return first <= value && value <= last; }
  bool operator==(const Range&) const = default;
};

inline std::string text_of(const Range& range) {
  const std::string first = std::to_string(range.first);
  return range.first == range.last ? first : first + "-" + std::to_string(range.last);
}

}  // namespace strata::configs
