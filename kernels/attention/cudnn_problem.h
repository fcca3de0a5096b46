// SPDX-License-Identifier: MIT
// CudnnProblem: the properties of one call of cuDNN, for which level cuda of attention builds a graph.
// B batch, Q queries, T keys, H query heads, K key and value heads, D head width
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"

namespace strata::kernels {

struct CudnnProblem {
  static constexpr int64_t kOpen = -1;  // no bound

  // The rows of a tensor are `width` elements apart, and a batch has `count` of them.
  struct Rows {
    int64_t width, count;
    auto operator<=>(const Rows&) const = default;
  };

  int64_t backward, device, half, deterministic, batch, heads, key_value_heads, width;
  // Rows of qkv, and of y, whose rows are heads * width elements apart. This call has `queries` of each batch, from the
  // row first_query of these on.
  Rows query_rows;
  int64_t first_query, queries;
  // `keys` of each batch, from first_key on, are all that the queries see. Gradients of keys may lie in another tensor.
  Rows key_rows, grad_key_rows;
  int64_t first_key, keys;
  // Bounds of the band, or kOpen: query - key < left and key - query <= right. Both are counted from the first ones, or
  // if at_end from the last ones.
  int64_t left, right, at_end;
  int64_t alibi, sinks;
  double softcap;     // 0: none
  int64_t documents;  // 0: none; rounded up to a power of two, which adds empty documents, so that few graphs are built
  // Where this call's numbers begin in logsumexp. They are contiguous, because cudnn-frontend refuses
  // others for a backward of cuDNN 9.19.
  int64_t first_statistic;

  auto operator<=>(const CudnnProblem&) const = default;
  // Number of sequences for cuDNN. None is longer than a row.
  int64_t sequences() const { return documents > 0 ? documents : batch; }
  int64_t statistics() const { return batch * heads * queries; }
  // The bytes that the backward needs besides its results, as they were measured on an H200: each query's gradient in
  // fp32, or with deterministic algorithms 2 bytes for each pair of positions, where a document counts as a whole row.
  int64_t backward_workspace() const {
    const int64_t of_head = queries * heads;
    return deterministic ? 2 * sequences() * of_head * keys : 4 * batch * of_head * width;
  }
};

// Returns the calls of cuDNN that compute attention. causal | prefix(n) has at most two: queries before n see all keys
// before n, and later queries are causal. Query n - 1 is both, and is in the second call if one of the calls would have
// a single query otherwise. Each query is in one call, and the last call
// sees all keys that the first one sees. The first of two writes gradients of keys into a tensor [B, keys, 2K * D] of
// its own. Throws a ValueError if cuDNN does not take a call.
std::vector<CudnnProblem> cudnn_problems(const Tensor& qkv, const AttentionOp::Shape& shape, bool backward);

}  // namespace strata::kernels
