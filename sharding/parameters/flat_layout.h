// SPDX-License-Identifier: MIT
// Where each parameter of a group lies in the group's one flat buffer, and which part of it each rank holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace strata::sharding {

struct FlatParameter {
  std::string name;
  std::vector<int64_t> shape;
  bool decayed = false;  // weight decay is for this one
};

class FlatLayout {
 public:
  // Parameters begin at multiples of 64 elements (256 bytes of float32), whatever the number of ranks.
  static constexpr int64_t kAlignment = 64;

  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
    int64_t offset = 0;    // in elements
    int64_t elements = 0;  // without padding
  };

  // `ranks` share the buffer in equal parts.
  FlatLayout(const std::vector<FlatParameter>& parameters, int64_t ranks);

  // Decayed parameters first, otherwise in the order given.
  const std::vector<Entry>& entries() const { return entries_; }
  // Elements of the buffer: only the end is padded for the ranks, to a multiple of 64 x ranks.
  int64_t elements() const { return elements_; }

  int64_t ranks() const { return ranks_; }
  int64_t shard_elements() const { return elements_ / ranks_; }
  int64_t shard_begin(int64_t rank) const { return rank * shard_elements(); }

  // Elements of `rank`'s shard that are decayed: the first so many.
  int64_t decayed_in_shard(int64_t rank) const;

 private:
  std::vector<Entry> entries_;
  int64_t elements_ = 0;
  int64_t decay_end_ = 0;  // elements before belong to decayed parameters (and their padding), the rest to the others
  int64_t ranks_ = 1;
};

}  // namespace strata::sharding
