// SPDX-License-Identifier: MIT
// The order of tiles in which keys and values that several tiles read stay in the L2 cache.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strata::kernels {

inline constexpr int64_t kCacheBytes = int64_t{24} << 20;  // about half of the L2 cache of a Hopper GPU

// Returns how many of `all` sequences and heads run one after the other on the same tile: a divisor of `all` in whole
// groups of `group`, so that the `bytes` that each group reads again stay in the cache.
inline int64_t sequences_in_cache(int64_t all, int64_t group, int64_t bytes) {
  int64_t groups = std::min(all / group, std::max<int64_t>(1, kCacheBytes / std::max<int64_t>(bytes, 1)));
  while (all / group % groups != 0) --groups;
  return groups * group;
}

}  // namespace strata::kernels
