// SPDX-License-Identifier: MIT
// An inclusive range of whole numbers: `3-7`, `3` alone, or every second one in `0-30 step 2`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace strata::configs {

struct Range {
  int64_t first = 0, last = 0, step = 1;

  bool contains(int64_t value) const { return first <= value && value <= last && (value - first) % step == 0; }
  bool operator==(const Range&) const = default;
};

// A range with an optional word that applies to it, such as `4-7 selective`.
template <class Word>
struct MarkedRange {
  Range range;
  std::optional<Word> mark = {};

  bool operator==(const MarkedRange&) const = default;
};

inline std::string to_text(const Range& range) {
  const std::string first = std::to_string(range.first);
  if (range.first == range.last) return first;
  return first + "-" + std::to_string(range.last) + (range.step == 1 ? "" : " step " + std::to_string(range.step));
}

}  // namespace strata::configs
