// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/layer_reach.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "kernels/attention/pattern/key_bits.h"
#include "kernels/attention/pattern/pair_counter.h"

namespace strata::kernels {
namespace {

// Parts of a row are nodes of a binary tree. Node 1 is the whole row, nodes 2 i and 2 i + 1 are the halves of node i,
// and the smallest parts are words of 64 positions.
class LayerReach {
 public:
  LayerReach(const Program& program, const std::vector<int64_t>& last)
      : program_(program),
        last_(last),
        next_(last),
        positions_(static_cast<int64_t>(last.size())),
        words_(std::bit_ceil(static_cast<size_t>((positions_ + kKeysOfBits - 1) / kKeysOfBits))),
        counter_(program, positions_, {}),
        latest_(2 * words_, -1),
        earliest_(2 * words_, std::numeric_limits<int64_t>::max()) {
    for (int64_t position = 0; position < positions_; ++position) {
      const size_t node = words_ + static_cast<size_t>(position / kKeysOfBits);
      const int64_t token = last[static_cast<size_t>(position)];
      latest_[node] = std::max(latest_[node], token);
      earliest_[node] = std::min(earliest_[node], token);
    }
    for (size_t node = words_ - 1; node > 0; --node) {
      latest_[node] = std::max(latest_[2 * node], latest_[2 * node + 1]);
      earliest_[node] = std::min(earliest_[2 * node], earliest_[2 * node + 1]);
    }
  }

  std::vector<int64_t> carried() {
    if (positions_ > 0) carry(1, 1, {0, positions_, 0, positions_}, static_cast<int64_t>(words_) * kKeysOfBits);
    return next_;
  }

 private:
  // `size`: positions of a node at this depth, of which the rectangle has those inside of the row.
  void carry(size_t queries, size_t keys, const Rectangle& pairs, int64_t size) {
    const int64_t token = latest_[keys];
    if (token <= earliest_[queries]) return;
    const Share share = counter_.share(pairs);
    if (share == Share::none()) return;
    if (share == Share::all()) {
      for (int64_t query = pairs.first_query; query < pairs.end_query; ++query) raise(query, token);
      earliest_[queries] = token;
      return;
    }
    if (counter_.is_known_empty(pairs)) return;
    size == kKeysOfBits ? carry_word(queries, pairs) : carry_parts(queries, keys, pairs, size / 2);
  }

  // Later keys come first, because they often have later tokens. Then earlier ones change nothing.
  void carry_parts(size_t queries, size_t keys, const Rectangle& pairs, int64_t half) {
    const auto [first_query, end_query, first_key, end_key] = pairs;
    const int64_t query = first_query + half, key = first_key + half;
    for (const bool late_keys : {true, false}) {
      if (late_keys && key >= end_key) continue;
      const int64_t first = late_keys ? key : first_key, end = late_keys ? end_key : std::min(key, end_key);
      const size_t part = 2 * keys + (late_keys ? 1 : 0);
      carry(2 * queries, part, {first_query, std::min(query, end_query), first, end}, half);
      if (query < end_query) carry(2 * queries + 1, part, {query, end_query, first, end}, half);
    }
    earliest_[queries] = std::max(earliest_[queries], std::min(earliest_[2 * queries], earliest_[2 * queries + 1]));
  }

  void carry_word(size_t queries, const Rectangle& pairs) {
    int64_t earliest = std::numeric_limits<int64_t>::max();
    for (int64_t query = pairs.first_query; query < pairs.end_query; ++query) {
      uint64_t seen = bits_between(pairs.first_key, pairs.first_key, pairs.end_key) &
                      evaluate(program_, [&](const Instruction& instruction, int32_t) {
                        return key_bits(instruction, query, pairs.first_key, {});
                      });
      for (; seen != 0; seen &= seen - 1) {
        raise(query, last_[static_cast<size_t>(pairs.first_key + std::countr_zero(seen))]);
      }
      earliest = std::min(earliest, next_[static_cast<size_t>(query)]);
    }
    earliest_[queries] = earliest;
  }

  void raise(int64_t query, int64_t token) {
    int64_t& reached = next_[static_cast<size_t>(query)];
    reached = std::max(reached, token);
  }

  const Program& program_;
  const std::vector<int64_t>& last_;
  std::vector<int64_t> next_;
  const int64_t positions_;
  const size_t words_;  // a power of two
  PairCounter counter_;
  std::vector<int64_t> latest_;    // by node of keys: the latest token of a position
  std::vector<int64_t> earliest_;  // by node of queries: no position has an earlier last token
};

}  // namespace

std::vector<int64_t> reached_after_layer(const Program& program, const std::vector<int64_t>& last) {
  return LayerReach(program, last).carried();
}

}  // namespace strata::kernels
