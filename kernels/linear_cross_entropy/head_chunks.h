// SPDX-License-Identifier: MIT
// The chunk sizes of linear_cross_entropy. This header needs no tensors, so that the prediction of memory uses it too.
#pragma once

#include <algorithm>
#include <cstdint>

namespace strata::kernels {

// The number of rows per chunk. Products are fast from some thousand rows on, so a chunk has up to 2 GiB of bf16 logits
// on a GPU and 64 MiB of fp32 on a CPU. All chunks have the same size in whole tiles of 128 rows, because a short one
// at the end would be slow. May exceed the number of rows.
inline int64_t rows_at_a_time(int64_t rows, int64_t classes, bool on_gpu) {
  const int64_t elements = int64_t{1} << (on_gpu ? 30 : 24);
  const int64_t most = std::max<int64_t>(elements / classes / 128, 1);
  const int64_t tiles = std::max<int64_t>((rows + 127) / 128, 1), chunks = (tiles + most - 1) / most;
  return (tiles + chunks - 1) / chunks * 128;
}

// The number of classes that level cuda computes: a multiple of 64, so that each row of logits begins at a 16-byte
// boundary. A vocabulary of 50257 is slow to multiply and to read.
inline int64_t padded_classes(int64_t classes) { return (classes + 63) / 64 * 64; }

}  // namespace strata::kernels
