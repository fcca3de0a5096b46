// SPDX-License-Identifier: MIT
// A stream of random numbers that depends on its key only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/permutation.h"

namespace strata {

class Draws {
 public:
  explicit Draws(uint64_t key) : key_(key) {}

  // In (0, 1). The sum rounds to 2^53, and so the result to 1, for the largest of its 2^53 words only.
  double uniform() {
    const double rounded = (static_cast<double>(mix(key_, next_++) >> 11) + 0.5) * 0x1p-53;
    return std::min(rounded, 1 - 0x1p-53);
  }
  double between(double low, double high) { return low + (high - low) * uniform(); }
  // In [0, count).
  int64_t below(int64_t count) { return static_cast<int64_t>(uniform() * static_cast<double>(count)); }
  // By the method of Box and Muller (1958). C++ orders statements, but not the two factors of a product.
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    const double angle = 2 * std::numbers::pi * uniform();
    return radius * std::cos(angle);
  }

 private:
  uint64_t key_, next_ = 0;
};

}  // namespace strata
