// SPDX-License-Identifier: MIT
// NeighborGraph: the sources that are neighbors of each target, stored by target and by source: a sparse matrix and its
// transpose.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace strata::kernels {

using at::Tensor;

// The neighbors of each row, one row after another (CSR format).
struct Adjacency {
  Tensor offsets;    // int64 [rows + 1]: row i has the neighbors from offsets[i] to offsets[i + 1]
  Tensor neighbors;  // int32 [edges]

  // Rows with more than kLongRow neighbors. On GPUs they are cut into pieces of kLongRow neighbors, one warp per piece.
  Tensor long_rows;     // int32 [long rows], ascending
  Tensor first_pieces;  // int32 [long rows + 1]: first piece of each long row
  Tensor piece_rows;    // int32 [pieces]: row of each piece
  Tensor piece_begins;  // int64 [pieces]: place of each piece's first neighbor
  int64_t pieces = 0;

  int64_t rows() const { return offsets.size(0) - 1; }
};

inline constexpr int64_t kLongRow = 256;

// A bipartite graph. Edges are numbered in the order of by_target.neighbors, and edge weights are in this order.
// from_edges and from_csr throw a ValueError if a count exceeds 2^31 - 1 or an index is out of range.
struct NeighborGraph {
  int64_t targets = 0, sources = 0;
  Adjacency by_target;    // the rows of the matrix [targets, sources]
  Adjacency by_source;    // its columns
  Tensor edge_by_source;  // int32 [edges]: number in by_target of each edge of by_source

  int64_t edges() const { return by_target.neighbors.size(0); }
  c10::Device device() const { return by_target.offsets.device(); }
  NeighborGraph to(c10::Device device, bool non_blocking = false) const;
  // Returns the same graph with each of its tensors replaced, always in the same order. Undefined tensors stay
  // undefined.
  NeighborGraph with_each(const std::function<Tensor(const Tensor&)>& replaced) const;

  // Builds a graph whose edge e leads from edge_sources[e] to edge_targets[e], int64 or int32 [edges] on the CPU. Edges
  // of one target keep their order. `order`, int64 [edges], receives the edge at each place; weight.index_select(0,
  // order) brings edge weights into this order.
  static NeighborGraph from_edges(const Tensor& edge_sources, const Tensor& edge_targets, int64_t sources,
                                  int64_t targets, Tensor* order = nullptr);

  // Builds a graph from compressed rows, int64 or int32 [targets + 1] and [edges] on the CPU, and keeps their order.
  static NeighborGraph from_csr(const Tensor& offsets, const Tensor& neighbors, int64_t sources);
};

// Returns edge weights or scores as kernels read them: contiguous in fp32, or undefined if they are.
inline Tensor contiguous_fp32(const Tensor& tensor) {
  return tensor.defined() ? tensor.to(at::kFloat).contiguous() : tensor;
}

}  // namespace strata::kernels
