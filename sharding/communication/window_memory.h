// SPDX-License-Identifier: MIT
// GPU memory that communicators hold for windows, which LibTorch's allocator does not count.
#pragma once

#include <atomic>
#include <cstdint>

namespace strata::sharding {

// Bytes of this process.
inline std::atomic<int64_t>& window_memory() {
  static std::atomic<int64_t> bytes{0};
  return bytes;
}

}  // namespace strata::sharding
