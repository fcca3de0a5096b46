// SPDX-License-Identifier: MIT
// CudnnProblem: the properties of a call of attention for which level cuda builds a graph of cuDNN.
// B batch, Q queries, T keys, H query heads, K key and value heads, D head width
#pragma once

#include <compare>
#include <cstdint>

#include "kernels/attention/attention.h"

namespace strata::kernels {

struct CudnnProblem {
  static constexpr int64_t kOpen = -1;  // no bound

  int64_t backward, device, half, deterministic, batch, queries, heads, key_value_heads, width;
  // Rows of queries and of keys are so many elements apart, and batches of keys are key_rows rows apart. `keys` of
  // these, from first_key on, are all that the queries see.
  int64_t query_width, key_width, key_rows, first_key, keys;
  // Bounds of the band, or kOpen: query - key < left and key - query <= right. Both are counted from the first ones, or
  // if at_end from the last ones.
  int64_t left, right, at_end;
  int64_t alibi, sinks;
  double softcap;     // 0: none
  int64_t documents;  // 0: none; rounded up to a power of two, which adds empty documents, so that few graphs are built

  auto operator<=>(const CudnnProblem&) const = default;
  // Number of sequences for cuDNN. None is longer than a row.
  int64_t sequences() const { return documents > 0 ? documents : batch; }
  // The bytes that the backward needs besides its results, as they were measured on an H200: each query's gradient in
  // fp32, or with deterministic algorithms 2 bytes for each pair of positions, where a document counts as a whole row.
  int64_t backward_workspace() const {
    const int64_t of_head = queries * heads;
    return deterministic ? 2 * sequences() * of_head * keys : 4 * batch * of_head * width;
  }
};

// Throws a ValueError if cuDNN does not take the call.
CudnnProblem cudnn_problem(const Tensor& qkv, const AttentionOp::Shape& shape, bool backward);

}  // namespace strata::kernels
