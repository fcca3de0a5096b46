// SPDX-License-Identifier: MIT
// Which pairs of blocks blocks(density, seed) sees. All arithmetic is on uint32 and wraps, so that a kernel computes
// the same on each device:
//
//   mixed(x):     x ^= x >> 16;  x *= 0x7feb352d;  x ^= x >> 15;  x *= 0x846ca68b;  x ^= x >> 16
//   key         = mixed(seed ^ 0x9e3779b9)
//   word(i, j)  = mixed(mixed(key + 2 i) ^ mixed(key + 2 j + 1))
//   block (i, j) is seen  <=>  i == j  or  word(i, j) >> 8 < round(density * 2^24)
//
// i is the block of the query and j the block of the key. mixed is a bijection, so neither rows nor columns repeat.
#pragma once

#include <cmath>
#include <cstdint>

namespace strata::kernels {

inline constexpr int kBlockHashBits = 24;  // that are compared with the threshold

constexpr uint32_t block_mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

constexpr uint32_t block_key(uint32_t seed) { return block_mixed(seed ^ 0x9e3779b9u); }

// In [0, 2^24].
inline int32_t block_threshold(double density) {
  return static_cast<int32_t>(std::lround(std::ldexp(density, kBlockHashBits)));
}

constexpr uint32_t block_word(uint32_t key, int32_t query_block, int32_t key_block) {
  const uint32_t row = block_mixed(key + 2u * static_cast<uint32_t>(query_block));
  const uint32_t column = block_mixed(key + 2u * static_cast<uint32_t>(key_block) + 1u);
  return block_mixed(row ^ column);
}

constexpr bool sees_block(uint32_t key, int32_t threshold, int32_t query_block, int32_t key_block) {
  const uint32_t word = block_word(key, query_block, key_block);
  return query_block == key_block || static_cast<int32_t>(word >> (32 - kBlockHashBits)) < threshold;
}

}  // namespace strata::kernels
