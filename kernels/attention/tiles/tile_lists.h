// SPDX-License-Identifier: MIT
// The lists of tiles of a pattern as the kernels of level triton read them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/pattern/tiles.h"

namespace strata::kernels {

enum class TileSide { query, key };

struct TileLists {
  // int32 [tiles, 4], or [B, tiles, 4] with documents: a tile, where its list starts in `indices`, where full tiles
  // follow the partial ones, and where it ends. The tiles with the longest lists come first.
  at::Tensor rows;
  at::Tensor indices;
  int64_t tiles = 0;
};

inline constexpr int64_t kRowNumbers = 4;  // of a tile in `rows`

// The tiles of a list, those with the longest lists first.
std::vector<int32_t> longest_first(const TileList& list);

// The numbers of `rows`, then the numbers of `indices`.
std::vector<int32_t> packed_lists(const TileList& list);

// The queries of a row, and its keys, which begin at position 0.
struct TiledRow {
  int64_t first_query, queries, keys;

  static TiledRow whole_row(int64_t positions) { return {0, positions, positions}; }
};

// Compiled once for each pattern, row and size, and kept on the device. The pattern has no documents.
TileLists tile_lists(const Pattern& pattern, const TiledRow& row, TileSize size, TileSide side, at::Device device);

// Returns lists for each row of `document_BT`, computed on its device from the lists of one document. `apart`: pairs of
// two documents are never visible.
TileLists lists_of_documents(const TileLists& one_document, const TiledRow& row, const at::Tensor& document_BT,
                             bool apart, TileSize size, TileSide side);

}  // namespace strata::kernels
