// SPDX-License-Identifier: MIT
// multiplies_sparse: which linear layers multiply a pruned weight by sparse tensor cores, and which emulate it. It
// needs no LibTorch, so that configurations can print it.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/runtime/level.h"

namespace strata::kernels {

// cuSPARSELt takes weights whose inputs and outputs are multiples of this, for 16-byte loads of the kept elements.
inline constexpr int64_t kSparseMultiple = 16;

// A weight is compressed before each product, which takes as long as sparse tensor cores save in about this many rows.
// Compressing 2048 x 8192 weights takes 0.41 ms. Their products with 32768 rows take 1.09 to 1.24 ms, and dense ones
// 1.52 (bf16, H200, cuSPARSELt 0.8).
inline constexpr int64_t kFewestSparseRows = 40960;

// True if op linear at `level` multiplies kFewestSparseRows or more rows with a pruned weight by cuSPARSELt: at level
// cuda, in bf16. It runs on the GPUs on which level cuda of op linear runs. fp32 has another pattern there, one of each
// two elements.
constexpr bool multiplies_sparse(Level level, bool in_bfloat16, int64_t inputs, int64_t outputs) {
  return level == Level::cuda && in_bfloat16 && inputs % kSparseMultiple == 0 && outputs % kSparseMultiple == 0;
}

// Returns why multiplies_sparse() is false for a layer, such as "sparse tensor cores need multiples of 16, and mlp.down
// has 40 inputs and 64 outputs". Returns "" if it is true.
std::string why_not_sparse(Level level, bool in_bfloat16, int64_t inputs, int64_t outputs, const std::string& module);

}  // namespace strata::kernels
