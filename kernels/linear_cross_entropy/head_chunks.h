// SPDX-License-Identifier: MIT
// The sizes in which linear_cross_entropy works, without a tensor: who predicts its memory asks here as well.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strata::kernels {

// Products are fast from some thousand rows on: up to 2 GiB of bf16 logits on a GPU, 64 MiB of fp32 on a CPU. Chunks of
// one size, whole tiles of 128 rows: a short one at the end would be slow. May be more than there are rows.
inline int64_t rows_at_a_time(int64_t rows, int64_t classes, bool on_gpu) {
  const int64_t elements = int64_t{1} << (on_gpu ? 30 : 24);
  const int64_t most = std::max<int64_t>(elements / classes / 128, 1);
  const int64_t tiles = std::max<int64_t>((rows + 127) / 128, 1), chunks = (tiles + most - 1) / most;
  return (tiles + chunks - 1) / chunks * 128;
}

// As many classes as level cuda computes, so that each row of logits begins at a 16-byte boundary: a vocabulary of
// 50257 is slow to multiply and to read.
inline int64_t classes_of_whole_rows(int64_t classes) { return (classes + 63) / 64 * 64; }

}  // namespace strata::kernels
