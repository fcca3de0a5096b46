// SPDX-License-Identifier: MIT
// The 90 patterns of 4 x 4 elements with two in each row and in each column.
#pragma once

#include <cstdint>

namespace strata::kernels {

// The pairs of a row, in the order in which patterns count them.
inline constexpr int kRowPairs = 6;
struct RowPair {
  int first, second;
};
constexpr RowPair row_pair(int pair) {
  if (pair < 3) return {0, pair + 1};
  return pair < 5 ? RowPair{1, pair - 1} : RowPair{2, 3};
}

struct TransposablePatterns {
  static constexpr int kCount = 90;
  int pair[kCount][4] = {};    // the pair of each row
  uint16_t kept[kCount] = {};  // bit 4 * row + column
};

// In the order of their pairs, the first row first.
constexpr TransposablePatterns transposable_patterns() {
  constexpr int kAll = kRowPairs * kRowPairs * kRowPairs * kRowPairs;
  TransposablePatterns patterns;
  int count = 0;
  for (int code = 0; code < kAll; ++code) {
    const int pairs[4] = {code / 216, code / 36 % 6, code / 6 % 6, code % 6};
    int in_column[4] = {};
    uint16_t kept = 0;
    for (int row = 0; row < 4; ++row) {
      const RowPair pair = row_pair(pairs[row]);
      ++in_column[pair.first];
      ++in_column[pair.second];
      kept = static_cast<uint16_t>(kept | 1u << (4 * row + pair.first) | 1u << (4 * row + pair.second));
    }
    if (in_column[0] != 2 || in_column[1] != 2 || in_column[2] != 2 || in_column[3] != 2) continue;
    for (int row = 0; row < 4; ++row) patterns.pair[count][row] = pairs[row];
    patterns.kept[count++] = kept;
  }
  return patterns;
}

inline constexpr TransposablePatterns kTransposablePatterns = transposable_patterns();
static_assert(kTransposablePatterns.kept[TransposablePatterns::kCount - 1] == 0x33cc);  // the last one: 90 were found

// Larger magnitudes, infinity and NaN count as this one, so that a sum of eight is finite.
inline constexpr float kLargestMagnitude = 0x1p124f;

}  // namespace strata::kernels
