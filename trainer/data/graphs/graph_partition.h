// SPDX-License-Identifier: MIT
// Assigns the nodes of a graph to ranks, and finds what each rank needs from the others.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// The order in which nodes are assigned to ranks: whole parts, one after another. It does not depend on the number of
// ranks, and therefore neither do dropout's masks.
struct GraphOrder {
  static constexpr int64_t kParts = 64;  // a graph of fewer nodes has one part for each node

  Tensor nodes;                  // int64 [nodes]: the file's node at each place; undefined: order of the file
  std::vector<int64_t> offsets;  // first place of each part, and the number of nodes at the end
};

// Keeps the order of the file, in parts of about equal numbers of nodes.
GraphOrder order_of_file(const GraphData& graph);

// Returns the graph with its nodes renumbered.
GraphData reordered(const GraphData& graph, const GraphOrder& order);

// Returns ranges: rank r has the nodes in [result[r], result[r + 1]), which are whole parts if there are at least as
// many parts as ranks.
std::vector<int64_t> ranges_of_ranks(const GraphOrder& order, int64_t ranks);

// Return the given rows of a sparse matrix, and its rows in [begin, end).
SparseRows rows_of(const SparseRows& rows, const Tensor& nodes);
SparseRows rows_between(const SparseRows& rows, int64_t begin, int64_t end);

// The part of one rank: the rows of the matrix for its own nodes. The columns are its sources: its own nodes, followed
// by its halo, which are the other nodes that it needs, ascending.
struct GraphPart {
  int64_t begin = 0, end = 0;
  SparseRows rows;                      // columns are indices of sources
  Tensor halo;                          // int64 node numbers
  std::vector<int64_t> receive_counts;  // number of halo nodes that each rank owns
  Tensor sent;                          // int64 indices of the own nodes to send, rank by rank
  std::vector<int64_t> send_counts;

  int64_t nodes() const { return end - begin; }
};
GraphPart part_of(const SparseRows& rows, const std::vector<int64_t>& ranges, int64_t rank);

}  // namespace strata::trainer
