// SPDX-License-Identifier: MIT
// Mistakes in a list of tiles.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/attention/pattern/tiles.h"

namespace strata::kernels {

// Takes the index at `place` of a list out of row `row`.
inline void drop(TileList& list, size_t row, int32_t place) {
  if (place < list.offsets[row] + list.partial[row]) --list.partial[row];
  list.indices.erase(list.indices.begin() + place);
  for (size_t i = row + 1; i < list.offsets.size(); ++i) --list.offsets[i];
}

// Takes the last partial tile of a row for a full one, and keeps the order.
inline void take_for_full(TileList& list, size_t row) {
  --list.partial[row];
  const auto full = list.indices.begin() + list.offsets[row] + list.partial[row];
  std::sort(full, list.indices.begin() + list.offsets[row + 1]);
}

}  // namespace strata::kernels
