// SPDX-License-Identifier: MIT
// Counts the GPU memory of symmetric windows, which LibTorch's allocator does not count.
#pragma once

#include <atomic>
#include <cstdint>

namespace strata::sharding {

// The number of bytes in this process.
inline std::atomic<int64_t>& window_memory() {
  static std::atomic<int64_t> bytes{0};
  return bytes;
}

}  // namespace strata::sharding
