// SPDX-License-Identifier: MIT
// Tiles: which tiles of queries and keys attention must compute for a pattern, as lists that kernels read.
//
// A tile has size.queries consecutive queries and size.keys consecutive keys. A tile without a visible pair is in no
// list. A full tile lies inside of both lengths and all its pairs are visible, so a kernel needs no mask for it. Any
// other tile is partial: a kernel evaluates the program for its pairs, and leaves out positions after the lengths.
//
// For the tile `row` of queries (by_query), or of keys (by_key), the tiles of the other kind are
//
//   partial: indices[i] for offsets[row] <= i < offsets[row] + partial[row]
//   full:    indices[i] for offsets[row] + partial[row] <= i < offsets[row + 1]
//
// and both ascend. With offsets[row] as the start, these are the numbers and the indices of FlexAttention's block mask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/pattern/program.h"

namespace strata::kernels {

struct TileSize {
  int64_t queries = 64, keys = 64;
};

struct TileList {
  std::vector<int32_t> offsets;  // [rows + 1]
  std::vector<int32_t> partial;  // [rows], numbers of partial tiles
  std::vector<int32_t> indices;  // [offsets.back()]

  bool operator==(const TileList&) const = default;
  int64_t rows() const { return static_cast<int64_t>(partial.size()); }
};

struct Tiles {
  TileList by_query;  // for the output and the gradient of queries
  TileList by_key;    // the same tiles, for the gradients of keys and values
  int64_t pairs = 0, visible_pairs = 0;
  int64_t tiles = 0, partial_tiles = 0, full_tiles = 0;  // tiles counts those without a visible pair too

  double share_of_tiles() const { return static_cast<double>(partial_tiles + full_tiles) / static_cast<double>(tiles); }
};

// Queries are the positions of a row from `first_query` on, and their tiles are counted from there. Keys are positions
// from 0 on. Rows whose documents differ have tiles of their own. `document_of` has the id of the document of each
// position, and ids do not descend; patterns without the word documents do not read it. Throws an Error with
// ExitCode::configuration if there are more tiles than int32 can count, and with ExitCode::data if the documents do not
// fit.
Tiles compile_tiles(const Pattern& pattern, int64_t queries, int64_t keys, TileSize size,
                    std::span<const int32_t> document_of = {}, int64_t first_query = 0);
Tiles compile_tiles(const Program& program, int64_t queries, int64_t keys, TileSize size,
                    std::span<const int32_t> document_of = {}, int64_t first_query = 0);

}  // namespace strata::kernels
