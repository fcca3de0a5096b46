// SPDX-License-Identifier: MIT
// The range of numbers that a field accepts.
#pragma once

#include <limits>

namespace strata::configs {

struct Limits {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool excludes_minimum = false;  // true: `minimum` itself is refused
  bool excludes_maximum = false;  // true: `maximum` itself is refused

  constexpr bool allow(double value) const {
    return (excludes_minimum ? value > minimum : value >= minimum) &&
           (excludes_maximum ? value < maximum : value <= maximum);
  }
};

inline constexpr Limits kAny = {};
inline constexpr Limits kPositive = {.minimum = 0, .excludes_minimum = true};
inline constexpr Limits kNonNegative = {.minimum = 0};
inline constexpr Limits kShare = {.minimum = 0, .maximum = 1};                               // 0 <= x <= 1
inline constexpr Limits kFraction = {.minimum = 0, .maximum = 1, .excludes_minimum = true};  // 0 < x <= 1
inline constexpr Limits kBelowOne = {.minimum = 0, .maximum = 1, .excludes_maximum = true};  // 0 <= x < 1

constexpr Limits between(double minimum, double maximum) { return {.minimum = minimum, .maximum = maximum}; }
constexpr Limits positive_to(double maximum) { return {.minimum = 0, .maximum = maximum, .excludes_minimum = true}; }

// The epsilon of a denominator that is computed in float32. A smaller epsilon would be 0 there, and 0 / 0 is NaN. With
// a large epsilon, AdamW becomes gradient descent with momentum.
inline constexpr Limits kEpsilon = between(1e-30, 1), kEpsilonOfOptimizer = between(1e-30, 1e10);
inline constexpr Limits kNumberOfSteps = between(0, 1e12);  // as many as `steps` may be

}  // namespace strata::configs
