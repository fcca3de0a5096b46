// SPDX-License-Identifier: MIT
// The middle of repeated measurements, and what lies so far from it: always one of the values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace strata {

// `share` of the others are below it: 0.5 is the median, of an even number of values the upper one.
inline double quantile(std::vector<double> values, double share) {
  const auto place = static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
  return values[place];
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace strata
