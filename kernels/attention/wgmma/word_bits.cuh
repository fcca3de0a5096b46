// SPDX-License-Identifier: MIT
// bits_of_words: which pairs of a partial tile are visible, without the stack that a program needs.
#pragma once

#include "kernels/attention/pattern/tile_words.h"
#include "kernels/attention/wgmma/pattern_bits.cuh"

namespace strata::kernels {

// ThreadPairs::bits for a pattern in the form of TileWords.
__device__ inline unsigned bits_of_words(const TileWords& words, const PairPattern& pattern,
                                         const ThreadPairs<true>& pairs, const int* documents) {
  const auto both = [&](int operation, int first, int second) {
    return pairs.row_bits(operation, first, second, documents, pattern.keys, pairs.row) |
           pairs.row_bits(operation, first, second, documents, pattern.keys, pairs.row + 8) << 16;
  };
  const unsigned inside = interval(0, pattern.keys - pairs.column);
  unsigned seen = both(kBand, words.lowest, words.highest) & (inside | inside << 16);
  if ((words.bits & TileWords::kAnyOf) != 0) {
    unsigned any = 0;
    if ((words.bits & TileWords::near) != 0) any |= both(kBand, words.near_lowest, words.near_highest);
    if ((words.bits & TileWords::stride) != 0) any |= both(kStride, words.step, words.span);
    if ((words.bits & TileWords::prefix) != 0) any |= both(kPrefix, words.first_keys, 0);
    if ((words.bits & TileWords::global) != 0) any |= both(kGlobal, words.border, 0);
    if ((words.bits & TileWords::blocks) != 0) any |= both(kBlocks, words.hash_key, words.threshold);
    seen &= any;
  }
  if ((words.bits & TileWords::documents) != 0) seen &= both(kDocuments, 0, 0);
  return seen;
}

}  // namespace strata::kernels
