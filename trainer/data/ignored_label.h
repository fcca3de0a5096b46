// SPDX-License-Identifier: MIT
// The label, or next token, of what counts nothing in a loss.
#pragma once

#include <cstdint>

namespace strata::trainer {

inline constexpr int64_t kIgnoredLabel = -100;

}  // namespace strata::trainer
