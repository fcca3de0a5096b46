// SPDX-License-Identifier: MIT
// The label or target token that a loss ignores.
#pragma once

#include <cstdint>

namespace strata::trainer {

inline constexpr int64_t kIgnoredLabel = -100;

}  // namespace strata::trainer
