// SPDX-License-Identifier: MIT
// kPruneGroup: the pattern of 2:4 sparsity. It needs no LibTorch, so that configurations can check widths.
#pragma once

#include <cstdint>

namespace strata::kernels {

inline constexpr int64_t kPruneGroup = 4;  // neighboring elements of a row, of which half are kept

}  // namespace strata::kernels
