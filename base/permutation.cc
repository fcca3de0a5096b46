// SPDX-License-Identifier: MIT
#include "base/permutation.h"

#include <bit>

namespace strata {
namespace {

// Four rounds make a Feistel network a pseudorandom permutation that resists chosen queries (Luby and Rackoff, 1988).
// Two more rounds cost 2 ns and even out small domains, where a round function has few bits to mix.
constexpr int kRounds = 6;

// A permutation of [0, 4^half_bits), whatever the round function is: each round can be undone by running it again.
uint64_t feistel(uint64_t key, uint64_t x, int half_bits) {
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t left = x >> half_bits, right = x & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t next = left ^ (mix(mix(key, round), right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

int64_t permuted(uint64_t key, int64_t index, int64_t size) {
  if (size < 2) return index;
  const int half_bits = (std::bit_width(static_cast<uint64_t>(size - 1)) + 1) / 2;
  // Cycle walking: the network permutes at most 4 x size numbers. A result outside [0, size) is permuted again until it
  // is inside. The loop always ends, because the cycle of `index` contains `index` itself.
  uint64_t x = index;
  do {
    x = feistel(key, x, half_bits);
  } while (x >= static_cast<uint64_t>(size));
  return static_cast<int64_t>(x);
}

}  // namespace strata
