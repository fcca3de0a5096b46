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
  // row first_query of these on. Gradients of queries may lie in another tensor.
  Rows query_rows, grad_query_rows;
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

  auto operator<=>(const CudnnProblem&) const = default;
  // Number of sequences for cuDNN. None is longer than a row.
  int64_t sequences() const { return documents > 0 ? documents : batch; }
  // The bytes that the backward needs besides its results, as they were measured on an H200: each query's gradient in
  // fp32, or with deterministic algorithms 2 bytes for each pair of positions, where a document counts as a whole row.
  int64_t backward_workspace() const {
    const int64_t query_rows = queries * heads;
    return deterministic ? 2 * sequences() * query_rows * keys : 4 * batch * query_rows * width;
  }
};

// Returns the calls of cuDNN that compute attention. causal | prefix(n) has at most two.
// In the forward each query is in one of them: queries before n see all keys before n, and later queries are causal.
// Query n - 1 is both, and is in the call of later queries if one of the calls would have a single query otherwise.
// The backward of whole rows has all causal pairs, and then the pairs above the diagonal: it gets the logsumexp of all
// keys a query sees, and so its gradients are sums over any parts of the pairs. Parts of rows and prefix(2), whose
// second call would have a single pair, have the calls of the forward.
// The first call sees all keys that the second one sees. The second one writes gradients into tensors of its own,
// [B, queries, H * D] and [B, keys, 2K * D], which are added. Throws a ValueError if cuDNN does not take a call.
std::vector<CudnnProblem> cudnn_problems(const Tensor& qkv, const AttentionOp::Arguments& arguments, bool backward);

}  // namespace strata::kernels
