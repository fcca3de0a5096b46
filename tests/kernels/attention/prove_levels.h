// SPDX-License-Identifier: MIT
// Proves the levels of attention on random expressions.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace strata::kernels {

inline constexpr int kParts = 10;                // each is a test of its own
inline constexpr int kExpressionsOfAPart = 100;  // with sizes of their own

// Draws the expressions of one part. Compares the result and all gradients of each level that attention has on this
// device with loops over pairs in fp64, by the rule of agreement, in one type for each expression. The test fails if
// they differ, if a level refuses what it should take, or takes what it should refuse.
void prove_levels(c10::DeviceType device, int part, int64_t most_positions);

}  // namespace strata::kernels
