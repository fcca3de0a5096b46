// SPDX-License-Identifier: MIT
// The lists of tiles of a pattern as the forward of level cuda reads them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/attention/pattern/pattern.h"
#include "kernels/attention/pattern/tiles.h"
#include "kernels/attention/tiles/tile_lists.h"

namespace strata::kernels {

struct StepsOfTiles {
  // int32 [tiles, 4]: a tile of queries, where its list starts in `steps`, where it ends, and 0. The tiles with the
  // longest lists come first.
  at::Tensor rows;
  // int32: twice a tile of keys, + 1 if it is full. Each list descends, so that causal patterns begin with partial
  // tiles.
  at::Tensor steps;
  int64_t tiles = 0;
};

// The numbers of `rows`, then the numbers of `steps`.
std::vector<int32_t> packed_steps(const TileList& list);

// Compiled once for each pattern, row and size, and kept on the device. The pattern has no documents.
StepsOfTiles step_lists(const Pattern& pattern, const TiledRow& row, TileSize size, at::Device device);

}  // namespace strata::kernels
