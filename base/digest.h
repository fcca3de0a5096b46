// SPDX-License-Identifier: MIT
// What proves that bytes and weights are the ones that were written: SHA-256, and a hash of weights that any split of
// them gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

struct evp_md_ctx_st;  // of OpenSSL

namespace strata {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void update(const void* bytes, size_t count);
  std::string hex();  // once, at the end: 64 digits

 private:
  evp_md_ctx_st* context_;
};

std::string sha256(std::string_view bytes);

// The sum over elements of a 128-bit mix of (index, bits of the value), in two halves that add independently: the sums
// of the pieces of a tensor, added with wrap-around in any order (an int64 all-reduce does it), are the sum of the
// tensor.
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

// A parameter and the sum over all of it.
struct ParameterContent {
  std::string name;
  std::vector<int64_t> shape;
  ContentSum sum;
};

// The hash of the list sorted by name: the same for any number of ranks.
std::string weights_sha256(std::vector<ParameterContent> parameters);

}  // namespace strata
