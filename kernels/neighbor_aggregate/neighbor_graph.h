// SPDX-License-Identifier: MIT
// NeighborGraph: which sources each target has as neighbors, seen from both sides: a sparse matrix and its transpose.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace strata::kernels {

using at::Tensor;

// The neighbors of each row, one row after another.
struct Adjacency {
  Tensor offsets;    // int64 [rows + 1]: the neighbors of row i stand from offsets[i] to offsets[i + 1]
  Tensor neighbors;  // int32 [edges]

  // Rows with more than kLongRow neighbors. GPUs sum them piece by piece: a warp for each kLongRow of their neighbors.
  Tensor long_rows;     // int32 [long rows], ascending
  Tensor first_pieces;  // int32 [long rows + 1]: which pieces are those of a long row
  Tensor piece_rows;    // int32 [pieces]
  Tensor piece_begins;  // int64 [pieces]: the place of a piece's first neighbor
  int64_t pieces = 0;

  int64_t rows() const { return offsets.size(0) - 1; }
};

inline constexpr int64_t kLongRow = 256;

// Places of edges, and edge weights, are in the order of by_target.neighbors.
struct NeighborGraph {
  int64_t targets = 0, sources = 0;
  Adjacency by_target;    // the rows of the matrix [targets, sources]
  Adjacency by_source;    // its columns
  Tensor edge_by_source;  // int32 [edges]: where the edges of by_source stand in by_target

  int64_t edges() const { return by_target.neighbors.size(0); }
  c10::Device device() const { return by_target.offsets.device(); }
  NeighborGraph to(c10::Device device, bool non_blocking = false) const;
  // The same graph with each of its tensors replaced, always in the same order; those that are undefined stay so.
  NeighborGraph with_each(const std::function<Tensor(const Tensor&)>& replaced) const;

  // Edge e leads from edge_sources[e] to edge_targets[e], int64 or int32 [edges] on the CPU. Edges of one target keep
  // their order; `order`, int64 [edges], receives the edge at each place: edge weights are brought there by
  // weight.index_select(0, order).
  static NeighborGraph from_edges(const Tensor& edge_sources, const Tensor& edge_targets, int64_t sources,
                                  int64_t targets, Tensor* order = nullptr);

  // Compressed rows as they are, int64 or int32 [targets + 1] and [edges] on the CPU.
  static NeighborGraph from_csr(const Tensor& offsets, const Tensor& neighbors, int64_t sources);
};

}  // namespace strata::kernels
