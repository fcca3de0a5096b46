// SPDX-License-Identifier: MIT
// How the nodes of a graph are spread over ranks, and what each rank needs of the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// Nodes in the order in which ranks take them: whole parts, one after another. It does not depend on the number of
// ranks, and dropout's masks therefore neither.
struct GraphOrder {
  Tensor nodes;                  // int64 [nodes]: which node of the file stands at each place; undefined: the same
  std::vector<int64_t> offsets;  // of the parts, from 0 to the number of nodes
};

// 64 parts with few edges between them and about the same number of nodes and edges in each, by METIS's recursive
// bisection, whose neighboring parts are parts of one larger part. Graphs of fewer than 256 nodes stay as they are.
// Throws Error (configuration) where the library of METIS cannot be loaded.
GraphOrder order_by_metis(const GraphData& graph);
// As they stand in the file.
GraphOrder order_of_file(const GraphData& graph);

// The same graph with its nodes renumbered.
GraphData reordered(const GraphData& graph, const GraphOrder& order);

// Rank r has the nodes from result[r] to result[r + 1]: whole parts where there are enough of them.
std::vector<int64_t> ranges_of_ranks(const GraphOrder& order, int64_t ranks);

// These rows of a sparse matrix, one after another; and those from `begin` to `end`.
SparseRows rows_of(const SparseRows& rows, const Tensor& nodes);
SparseRows rows_between(const SparseRows& rows, int64_t begin, int64_t end);

// What one rank computes: rows of the matrix for its own nodes. Sources are its own nodes, then its halo, which are the
// others that it needs, ascending.
struct GraphPart {
  int64_t begin = 0, end = 0;
  SparseRows rows;                      // columns are sources
  Tensor halo;                          // int64, nodes
  std::vector<int64_t> receive_counts;  // how many of the halo each rank has
  Tensor sent;                          // int64: which of its own nodes it sends, rank by rank
  std::vector<int64_t> send_counts;

  int64_t nodes() const { return end - begin; }
};
GraphPart part_of(const SparseRows& rows, const std::vector<int64_t>& ranges, int64_t rank);

}  // namespace strata::trainer
