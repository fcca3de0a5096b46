// SPDX-License-Identifier: MIT
// Hashes that prove that bytes and weights are unchanged: SHA-256, and a hash of weights that does not depend on how
// they are sharded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct evp_md_ctx_st;  // OpenSSL's hash state

namespace strata {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(const void* bytes, size_t count);
  std::string hex();  // 64 digits; call it once, after the last update()

 private:
  evp_md_ctx_st* context_;
};

std::string sha256(std::string_view bytes);

// Returns a hash that finds changes by accident at about the speed of memory. Unlike SHA-256, it is no proof against
// somebody who looks for other bytes with the same hash.
uint64_t hash_bytes(const void* bytes, size_t count, uint64_t seed);

// The sum over all elements of a 128-bit mix of (index, bits of the value), kept in two halves that add independently.
// The sums of the shards of a tensor, added with wrap-around in any order (for example by an int64 all-reduce), give
// the sum of the whole tensor.
struct ContentSum {
  uint64_t low = 0, high = 0;
  ContentSum& operator+=(const ContentSum& other) {
    low += other.low;
    high += other.high;
    return *this;
  }
  bool operator==(const ContentSum&) const = default;
};

// `offset` is the index of values[0] in the flattened tensor.
ContentSum sum_of_piece(const float* values, int64_t count, int64_t offset);

// A parameter and the sum over all of its elements.
struct ParameterContent {
  std::string name;
  std::vector<int64_t> shape;
  ContentSum sum;
};

// The SHA-256 of the list sorted by name. It is the same for any number of ranks.
std::string weights_sha256(std::vector<ParameterContent> parameters);

}  // namespace strata
