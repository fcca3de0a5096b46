// SPDX-License-Identifier: MIT
// A seeded permutation of [0, size) that needs no memory: the order in which an epoch visits its samples.
#pragma once

#include <cstdint>

namespace strata {

// A hash of 64 bits in which every bit of the input changes half of the output: the finalizer of SplitMix64
// (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014; constants: Stafford's variant 13).
constexpr uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Combines two numbers into the key of a stream of random numbers. The odd constant is 2^64 / golden ratio, which keeps
// (0, 0) away from 0.
constexpr uint64_t mix(uint64_t a, uint64_t b) { return mix(mix(a + 0x9e3779b97f4a7c15u) ^ b); }

// Returns the place of `index` in the permutation of [0, size) that `key` selects. Requires 0 <= index < size.
int64_t permuted(uint64_t key, int64_t index, int64_t size);

}  // namespace strata
