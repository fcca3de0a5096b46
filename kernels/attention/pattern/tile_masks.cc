// SPDX-License-Identifier: MIT
#include "kernels/attention/pattern/tile_masks.h"

#include <algorithm>

#include "kernels/attention/pattern/key_bits.h"
#include "kernels/attention/pattern/tiles.h"

namespace strata::kernels {

TileMasks::TileMasks(int64_t positions) : positions_(positions) {
  Mask none = {}, full;
  full.fill(-1);
  number_of(none);
  number_of(full);
}

int32_t TileMasks::number_of(const Mask& mask) {
  const auto [place, is_new] = numbers_.try_emplace(mask, static_cast<int32_t>(masks_.size()));
  if (is_new) masks_.push_back(mask);
  return place->second;
}

std::vector<int32_t> TileMasks::add(const Program& program) {
  const TileList list = compile_tiles(program, positions_, positions_, {kMaskTile, kMaskTile}).by_query;
  std::vector<int32_t> numbers(static_cast<size_t>(tiles() * tiles()), kNone);
  const auto mask_of = [&](int64_t row, int64_t column) {
    Mask mask = {};
    auto word = mask.begin();
    for (int64_t query = row * kMaskTile; query < (row + 1) * kMaskTile; ++query) {
      for (int64_t first_key = column * kMaskTile; first_key < (column + 1) * kMaskTile; first_key += kKeysOfBits) {
        const uint64_t inside = query < positions_ ? bits_between(first_key, 0, positions_) : 0;
        const uint64_t seen = inside & evaluate(program, [&](const Instruction& instruction, int32_t) {
                                return key_bits(instruction, query, first_key, {});
                              });
        *word++ = static_cast<int32_t>(seen & 0xffffffff);
        *word++ = static_cast<int32_t>(seen >> 32);
      }
    }
    return mask;
  };
  for (int64_t row = 0; row < tiles(); ++row) {
    const auto i = static_cast<size_t>(row);
    for (int32_t place = list.offsets[i]; place < list.offsets[i + 1]; ++place) {
      const int64_t column = list.indices[static_cast<size_t>(place)];
      const bool partial = place < list.offsets[i] + list.partial[i];
      numbers[static_cast<size_t>(row * tiles() + column)] = partial ? number_of(mask_of(row, column)) : kFull;
    }
  }
  return numbers;
}

std::vector<int32_t> TileMasks::words() const {
  std::vector<int32_t> words;
  for (const Mask& mask : masks_) words.insert(words.end(), mask.begin(), mask.end());
  return words;
}

}  // namespace strata::kernels
