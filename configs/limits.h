// SPDX-License-Identifier: MIT
// The range of numbers that a field accepts.
#pragma once

#include <limits>

namespace strata::configs {

struct Limits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;  // true: `least` itself is refused
  bool below_most = false;   // true: `most` itself is refused

  constexpr bool allow(double value) const {
    return (above_least ? value > least : value >= least) && (below_most ? value < most : value <= most);
  }
};

inline constexpr Limits kAny = {};
inline constexpr Limits kPositive = {.least = 0, .above_least = true};
inline constexpr Limits kNonNegative = {.least = 0};
inline constexpr Limits kShare = {.least = 0, .most = 1};                          // 0 <= x <= 1
inline constexpr Limits kFraction = {.least = 0, .most = 1, .above_least = true};  // 0 < x <= 1
inline constexpr Limits kBelowOne = {.least = 0, .most = 1, .below_most = true};   // 0 <= x < 1

constexpr Limits at_least(double least) { return {.least = least}; }
constexpr Limits between(double least, double most) { return {.least = least, .most = most}; }
constexpr Limits positive_to(double most) { return {.least = 0, .most = most, .above_least = true}; }

// The epsilon of a denominator that is computed in float32. A smaller epsilon would be 0 there, and 0 / 0 is NaN. With
// a large epsilon, AdamW becomes gradient descent with momentum.
inline constexpr Limits kEpsilon = between(1e-30, 1), kEpsilonOfOptimizer = between(1e-30, 1e10);
inline constexpr Limits kNumberOfSteps = between(0, 1e12);  // as many as `steps` may be

}  // namespace strata::configs
