// SPDX-License-Identifier: MIT
#include "sharding/parameters/coded_layout.h"

#include <algorithm>

namespace strata::sharding {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + FlatLayout::kAlignment - 1) / FlatLayout::kAlignment * FlatLayout::kAlignment;
}

// A part of an entry that lies in the shard of one rank. It begins at `at` in the row of the rank, if pieces are placed
// one after another.
struct Piece {
  size_t entry;
  int64_t rank, at, elements;
  bool begins, ends;  // the entry begins in this shard, and ends in it
};

std::vector<Piece> pieces_of_others(const FlatLayout& flat, const std::vector<bool>& is_coded) {
  std::vector<Piece> pieces;
  for (int64_t rank = 0; rank < flat.ranks(); ++rank) {
    const int64_t shard_begin = flat.shard_begin(rank), shard_end = shard_begin + flat.shard_elements();
    int64_t at = 0;
    for (size_t i = 0; i < flat.entries().size(); ++i) {
      const FlatLayout::Entry& entry = flat.entries()[i];
      const int64_t entry_end = entry.offset + entry.elements;
      const int64_t begin = std::max(entry.offset, shard_begin), end = std::min(entry_end, shard_end);
      if (is_coded[i] || begin >= end) continue;
      pieces.push_back({i, rank, at, end - begin, entry.offset >= shard_begin, entry_end <= shard_end});
      at += aligned(end - begin);
    }
  }
  return pieces;
}

}  // namespace

// An entry that goes on in the next shard has its piece at the end of the row. There the rest follows at the begin of
// the next row, because it comes first in that shard. A shard that is a part of one entry alone is a full row.
CodedLayout::CodedLayout(const FlatLayout& flat, const std::vector<bool>& is_coded)
    : codes_(flat.elements()), rows_(flat.ranks()), in_rows_(flat.entries().size()) {
  for (size_t i = 0; i < flat.entries().size(); ++i) {
    among_coded_.push_back(is_coded[i] ? std::optional(coded_entries_++) : std::nullopt);
  }
  const std::vector<Piece> pieces = pieces_of_others(flat, is_coded);
  for (const Piece& piece : pieces) row_elements_ = std::max(row_elements_, piece.at + aligned(piece.elements));
  for (const Piece& piece : pieces) {
    if (!piece.begins) continue;
    const int64_t in_row = piece.ends ? piece.at : row_elements_ - piece.elements;
    in_rows_[piece.entry] = piece.rank * row_elements_ + in_row;
  }
}

}  // namespace strata::sharding
