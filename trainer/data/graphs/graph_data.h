// SPDX-License-Identifier: MIT
// A graph whose nodes have features and labels, or many small graphs with a label each: what every reader of graphs
// makes, and the rules that hold for all.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace strata::trainer {

using at::Tensor;

// Rows of a sparse matrix one after another: int64 [rows + 1], int64 [entries], fp32 [entries].
struct SparseRows {
  Tensor offsets, columns, values;
};

// Of an int64 tensor on the CPU.
inline const int64_t* integers(const Tensor& tensor) { return tensor.const_data_ptr<int64_t>(); }

struct GraphData {
  std::string name = {};         // for messages
  std::string labels_file = {};  // where line i + 1 is the label of item i; empty: not in a file of lines
  int64_t nodes = 0, features = 0;
  // Of many graphs, whose nodes stand one graph after another: the first node of each, and behind the last; int64
  // [graphs + 1]. Undefined: it is one graph.
  Tensor first_nodes = {};
  // The nodes from which edges lead to each node: int64 [nodes + 1] and [edges].
  Tensor offsets = {}, neighbors = {};
  Tensor dense_features = {};                     // fp32 [nodes, features]; undefined: they are sparse
  SparseRows sparse_features = {};                // undefined: they are dense
  Tensor labels = {};                             // int64 [items]
  Tensor train = {}, validation = {}, test = {};  // items, int64, ascending; test may be undefined

  // What has labels: nodes, or graphs.
  int64_t items() const { return first_nodes.defined() ? first_nodes.size(0) - 1 : nodes; }
  std::string item() const { return first_nodes.defined() ? "graph" : "node"; }
  int64_t edges() const { return neighbors.size(0); }
  bool is_sparse() const { return !dense_features.defined(); }
};

// Fills in offsets and neighbors, which are ascending then. Edge e leads from sources[e] to targets[e], int64, both
// below `nodes`; `undirected`: and back. An edge that is there several times counts once, one to the node itself never.
void set_edges(GraphData& graph, const Tensor& sources, const Tensor& targets, bool undirected);

// Sorts the items of a split that a file calls `split`. Throws Error (data) where one is not there, is twice in it,
// or where it is empty.
Tensor sorted_split(const GraphData& graph, const std::string& split, const Tensor& items);

// Throws Error (data) for what no model can learn from: features that are not finite, a label outside of the classes,
// an item in two splits.
void check(const GraphData& graph, int64_t classes);

// The same for the same content in any file: 16 hexadecimal digits.
std::string fingerprint_of(const GraphData& graph);

}  // namespace strata::trainer
