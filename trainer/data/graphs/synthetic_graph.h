// SPDX-License-Identifier: MIT
// Random graphs of any size, some of whose nodes have many neighbors: for measuring.
#pragma once

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// `edges` directed ones, with repetitions: the targets are uniform, the sources cubes of uniform numbers, so that a
// thousandth of the nodes has a tenth of the edges. Features and labels are random too; sparse features are
// about eight for each node. Four of five nodes are for training, the others for validation.
struct SyntheticGraph {
  int64_t nodes, edges, features, classes;
  bool sparse_features;
  uint64_t seed;
};
GraphData make_graph(const SyntheticGraph& size);

}  // namespace strata::trainer
