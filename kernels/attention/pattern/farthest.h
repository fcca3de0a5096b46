// SPDX-License-Identifier: MIT
// kFarthest: an open side of a band. No two positions are farther apart.
#pragma once

#include <cstdint>
#include <limits>

namespace strata::kernels {

inline constexpr int32_t kFarthest = std::numeric_limits<int32_t>::max();

}  // namespace strata::kernels
