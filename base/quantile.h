// SPDX-License-Identifier: MIT
// Median and quantiles of repeated measurements. The result is always one of the values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace strata {

// Returns the value that `share` of the other values are below: 0.5 gives the median, which for an even number of
// values is the upper one. Requires at least one value.
inline double quantile(std::vector<double> values, double share) {
  const auto place = static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
  return values[place];
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace strata
