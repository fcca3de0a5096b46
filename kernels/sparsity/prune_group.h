// SPDX-License-Identifier: MIT
// The pattern of 2:4 sparsity, and which elements of a weight are kept. It needs no LibTorch, so that configurations
// can check widths.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace strata::kernels {

inline constexpr int64_t kPruneGroup = 4;  // neighboring elements of a row, of which half are kept

enum class PruneMask {
  rows,          // the two largest of each group
  transposable,  // of each 4 x 4 elements two in each row and in each column, with the largest sum of magnitudes
};
constexpr std::array<std::string_view, 2> names(PruneMask) { return {"rows", "transposable"}; }

}  // namespace strata::kernels
