// SPDX-License-Identifier: MIT
// Arithmetic of time intervals that may overlap.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace strata::trainer::profile {

struct Interval {
  int64_t start = 0, end = 0;
};

// Returns how long at least one of the intervals is active.
inline int64_t covered(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](Interval a, Interval b) { return a.start < b.start; });
  int64_t sum = 0, end = INT64_MIN;
  for (const Interval& interval : intervals) {
    if (interval.end <= end) continue;
    sum += interval.end - std::max(interval.start, end);
    end = interval.end;
  }
  return sum;
}

// Returns how long one of `these` is active while none of `others` is.
inline int64_t covered_without(std::vector<Interval> these, const std::vector<Interval>& others) {
  these.insert(these.end(), others.begin(), others.end());
  return covered(std::move(these)) - covered(others);
}

}  // namespace strata::trainer::profile
