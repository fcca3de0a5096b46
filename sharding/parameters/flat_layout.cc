// SPDX-License-Identifier: MIT
#include "sharding/parameters/flat_layout.h"

#include <algorithm>

#include "base/errors.h"

namespace strata::sharding {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t result = 1;
  for (int64_t size : shape) result *= size;
  return result;
}

}  // namespace

FlatLayout::FlatLayout(const std::vector<FlatParameter>& parameters, int64_t ranks) : ranks_(ranks) {
  if (ranks < 1) {
    throw Error(ExitCode::internal, "flat layout: expected at least 1 rank, got " + std::to_string(ranks));
  }
  int64_t offset = 0;
  for (bool decayed : {true, false}) {
    for (const FlatParameter& parameter : parameters) {
      if (parameter.decayed != decayed) continue;
      const int64_t elements = product(parameter.shape);
      entries_.push_back({parameter.name, parameter.shape, offset, elements});
      offset = aligned(offset + elements);
    }
    if (decayed) decay_end_ = offset;
  }
  elements_ = ranks * aligned((offset + ranks - 1) / ranks);
}

std::vector<FlatLayout::ShardPart> FlatLayout::parts_of_shard(int64_t rank) const {
  const int64_t decayed = std::clamp<int64_t>(decay_end_ - shard_begin(rank), 0, shard_elements());
  std::vector<ShardPart> parts = {{0, decayed, true}, {decayed, shard_elements() - decayed, false}};
  std::erase_if(parts, [](const ShardPart& part) { return part.count == 0; });
  return parts;
}

std::vector<FlatLayout::Piece> FlatLayout::pieces_of_shard(int64_t rank) const {
  const int64_t shard_end = shard_begin(rank) + shard_elements();
  std::vector<Piece> pieces;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const int64_t offset = entries_[i].offset, begin = std::max(offset, shard_begin(rank));
    const int64_t end = std::min(offset + entries_[i].elements, shard_end);
    if (begin < end) pieces.push_back({i, begin - offset, begin - shard_begin(rank), end - begin});
  }
  return pieces;
}

}  // namespace strata::sharding
