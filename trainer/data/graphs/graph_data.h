// SPDX-License-Identifier: MIT
// A graph whose nodes have features and labels, or many small graphs with one label each. All readers of graphs return
// it, and the rules that apply to all of them are here.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace strata::trainer {

using at::Tensor;

// The rows of a sparse matrix (CSR): offsets int64 [rows + 1], columns int64 [entries], values fp32 [entries].
struct SparseRows {
  Tensor offsets, columns, values;
};

// Returns the data of an int64 tensor on the CPU.
inline const int64_t* integers(const Tensor& tensor) { return tensor.const_data_ptr<int64_t>(); }

struct GraphData {
  std::string name = {};           // name in messages
  std::string features_file = {};  // text file of the features; empty if they are in another file
  std::string labels_file = {};    // file whose line i + 1 is the label of item i; empty if there is none
  int64_t nodes = 0, features = 0;
  // For many graphs, whose nodes follow each other graph by graph: the first node of each graph, and the number of
  // nodes at the end; int64 [graphs + 1]. Undefined for a single graph.
  Tensor first_nodes = {};
  // The source nodes of the edges into each node: int64 [nodes + 1] and [edges].
  Tensor offsets = {}, neighbors = {};
  Tensor dense_features = {};                     // fp32 [nodes, features]; undefined if they are sparse
  SparseRows sparse_features = {};                // undefined if they are dense
  Tensor labels = {};                             // int64 [items]
  Tensor train = {}, validation = {}, test = {};  // ascending items, int64; test may be undefined

  // Items are what has labels: nodes or graphs.
  int64_t items() const { return first_nodes.defined() ? first_nodes.size(0) - 1 : nodes; }
  std::string item() const { return first_nodes.defined() ? "graph" : "node"; }
  int64_t edges() const { return neighbors.size(0); }
  bool is_sparse() const { return !dense_features.defined(); }
};

// Sets offsets and neighbors; the neighbors of a node are ascending. Edge e goes from sources[e] to targets[e], both
// int64 and below `nodes`. With `undirected`, the reverse edge is added too. Repeated edges are kept once, and self
// loops are dropped.
void set_edges(GraphData& graph, const Tensor& sources, const Tensor& targets, bool undirected);

// Returns the sorted items of a split, which errors name `split`. Throws Error (data) if an item does not exist, if one
// is repeated, or if the split is empty.
Tensor sorted_split(const GraphData& graph, const std::string& split, const Tensor& items);

// Throws Error (data) for data from which a model cannot learn: features that are not finite, a label outside of the
// classes, or an item in two splits. An item in no split may have label -1.
void check_graph(const GraphData& graph, int64_t classes);

// Returns 16 hexadecimal digits that are the same for the same content in any file.
std::string fingerprint_of(const GraphData& graph);

}  // namespace strata::trainer
