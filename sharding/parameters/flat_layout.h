// SPDX-License-Identifier: MIT
// The layout of a parameter group in one flat buffer: the offset of each parameter, and the shard of each rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace strata::sharding {

struct FlatParameter {
  std::string name;
  std::vector<int64_t> shape;
  bool decayed = false;  // weight decay applies to this parameter
};

class FlatLayout {
 public:
  // Parameters start at multiples of 64 elements (256 bytes of float32) for any number of ranks.
  static constexpr int64_t kAlignment = 64;
  static int64_t aligned(int64_t elements) { return (elements + kAlignment - 1) / kAlignment * kAlignment; }

  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
    int64_t offset = 0;    // offset in elements
    int64_t elements = 0;  // elements without padding
  };

  // The buffer is divided into equal shards for `ranks` ranks.
  FlatLayout(const std::vector<FlatParameter>& parameters, int64_t ranks);

  // Decayed parameters come first; otherwise the order is the given one.
  const std::vector<Entry>& entries() const { return entries_; }
  // Elements of the buffer. Only its end is padded for the ranks, to a multiple of 64 x ranks.
  int64_t elements() const { return elements_; }

  int64_t ranks() const { return ranks_; }
  int64_t shard_elements() const { return elements_ / ranks_; }
  int64_t shard_begin(int64_t rank) const { return rank * shard_elements(); }

  // Consecutive elements of a shard, all of parameters with weight decay or all of parameters without it.
  struct ShardPart {
    int64_t first, count;  // in elements of the shard
    bool decayed;
    bool operator==(const ShardPart&) const = default;
  };
  // Returns the parts of `rank`'s shard in their order: at most two, none of them empty. Padding belongs to them too.
  std::vector<ShardPart> parts_of_shard(int64_t rank) const;

  // The elements of one parameter in a shard.
  struct Piece {
    size_t entry;                            // index among entries()
    int64_t parameter_offset, shard_offset;  // the first element in each
    int64_t count;                           // elements
  };
  // Returns the pieces of `rank`'s shard in their order. None is empty, and padding belongs to none.
  std::vector<Piece> pieces_of_shard(int64_t rank) const;

 private:
  std::vector<Entry> entries_;
  int64_t elements_ = 0;
  int64_t decay_end_ = 0;  // elements before it belong to decayed parameters and their padding
  int64_t ranks_ = 1;
};

}  // namespace strata::sharding
