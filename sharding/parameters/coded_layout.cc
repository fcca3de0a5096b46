// SPDX-License-Identifier: MIT
#include "sharding/parameters/coded_layout.h"

#include <algorithm>

namespace strata::sharding {
namespace {

int64_t aligned(int64_t elements) {
  return (elements + FlatLayout::kAlignment - 1) / FlatLayout::kAlignment * FlatLayout::kAlignment;
}

// A piece of the shard of a rank. It begins at `at` in the row of the rank, if pieces are placed one after another.
struct PieceInRow : FlatLayout::Piece {
  int64_t rank, at;
};

std::vector<PieceInRow> pieces_of_others(const FlatLayout& flat, const std::vector<bool>& is_coded) {
  std::vector<PieceInRow> pieces;
  for (int64_t rank = 0; rank < flat.ranks(); ++rank) {
    int64_t at = 0;
    for (const FlatLayout::Piece& piece : flat.pieces_of_shard(rank)) {
      if (is_coded[piece.entry]) continue;
      pieces.push_back({piece, rank, at});
      at += aligned(piece.count);
    }
  }
  return pieces;
}

}  // namespace

// An entry can span several shards. Its first piece then ends the row of the first rank, and its next piece begins the
// row of the next rank, so that both are contiguous. A shard that lies inside of one entry fills its row.
CodedLayout::CodedLayout(const FlatLayout& flat, const std::vector<bool>& is_coded)
    : codes_(flat.elements()), rows_(flat.ranks()), in_rows_(flat.entries().size()) {
  for (size_t i = 0; i < flat.entries().size(); ++i) {
    among_coded_.push_back(is_coded[i] ? std::optional(coded_entries_++) : std::nullopt);
  }
  const std::vector<PieceInRow> pieces = pieces_of_others(flat, is_coded);
  for (const PieceInRow& piece : pieces) row_elements_ = std::max(row_elements_, piece.at + aligned(piece.count));
  for (const PieceInRow& piece : pieces) {
    if (piece.in_parameter > 0) continue;
    const bool is_whole = piece.count == flat.entries()[piece.entry].elements;
    const int64_t in_row = is_whole ? piece.at : row_elements_ - piece.count;
    in_rows_[piece.entry] = piece.rank * row_elements_ + in_row;
  }
}

}  // namespace strata::sharding
