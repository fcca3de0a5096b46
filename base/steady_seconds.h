// SPDX-License-Identifier: MIT
// The seconds of a clock that nobody sets back, since a moment of its own.
#pragma once

#include <chrono>

namespace strata {

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace strata
