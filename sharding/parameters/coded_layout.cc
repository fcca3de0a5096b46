// SPDX-License-Identifier: MIT
#include "sharding/parameters/coded_layout.h"

#include <algorithm>

namespace strata::sharding {
namespace {

// A piece of the shard of a rank. `offset_in_row` is its place if pieces are placed one after another.
struct PieceInRow : FlatLayout::Piece {
  int64_t rank, offset_in_row;
};

std::vector<PieceInRow> uncoded_pieces(const FlatLayout& flat, const std::vector<bool>& is_coded) {
  std::vector<PieceInRow> pieces;
  for (int64_t rank = 0; rank < flat.ranks(); ++rank) {
    int64_t offset_in_row = 0;
    for (const FlatLayout::Piece& piece : flat.pieces_of_shard(rank)) {
      if (is_coded[piece.entry]) continue;
      pieces.push_back({piece, rank, offset_in_row});
      offset_in_row += FlatLayout::aligned(piece.count);
    }
  }
  return pieces;
}

}  // namespace

// An entry can span several shards. Its first piece then ends the row of the first rank, and its next piece begins the
// row of the next rank, so that both are contiguous. A shard that lies inside of one entry fills its row.
CodedLayout::CodedLayout(const FlatLayout& flat, const std::vector<bool>& is_coded)
    : flat_elements_(flat.elements()), rows_(flat.ranks()), place_in_rows_(flat.entries().size()) {
  for (size_t i = 0; i < flat.entries().size(); ++i) {
    coded_index_.push_back(is_coded[i] ? std::optional(coded_entries_++) : std::nullopt);
  }
  const std::vector<PieceInRow> pieces = uncoded_pieces(flat, is_coded);
  for (const PieceInRow& piece : pieces)
    row_elements_ = std::max(row_elements_, piece.offset_in_row + FlatLayout::aligned(piece.count));
  for (const PieceInRow& piece : pieces) {
    if (piece.parameter_offset > 0) continue;
    const bool is_whole = piece.count == flat.entries()[piece.entry].elements;
    const int64_t in_row = is_whole ? piece.offset_in_row : row_elements_ - piece.count;
    place_in_rows_[piece.entry] = piece.rank * row_elements_ + in_row;
  }
}

}  // namespace strata::sharding
