// SPDX-License-Identifier: MIT
// TileMasks: the visible pairs of a program, exact to the pair, as one mask for each tile of 128 x 128 positions.
//
// Tiles with the same visible pairs have the same mask, so there are few masks: tiles of a band differ by their
// distance from the diagonal alone. A mask has 128 x 4 words. Bit b of word w of row q is the pair of query q and key
// 32 w + b of the tile, and pairs after the last position are not visible.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "kernels/attention/pattern/program.h"

namespace strata::kernels {

inline constexpr int64_t kMaskTile = 128;

class TileMasks {
 public:
  // Masks with these numbers are always there.
  enum : int32_t { kNone = 0, kFull = 1 };

  explicit TileMasks(int64_t positions);

  // Returns the number of the mask of each tile, [tiles, tiles] by queries and keys. All programs share the masks. The
  // program has no documents: with_documents().
  std::vector<int32_t> add(const Program& program);

  int64_t tiles() const { return (positions_ + kMaskTile - 1) / kMaskTile; }
  // All masks, [masks, 128, 4].
  std::vector<int32_t> words() const;

 private:
  using Mask = std::array<int32_t, kMaskTile * kMaskTile / 32>;

  int32_t number_of(const Mask& mask);

  int64_t positions_;
  std::vector<Mask> masks_;
  std::map<Mask, int32_t> numbers_;
};

}  // namespace strata::kernels
