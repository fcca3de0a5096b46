// SPDX-License-Identifier: MIT
// Random graphs of any size for benchmarks, in which some nodes have many neighbors.
#pragma once

#include "trainer/data/graphs/graph_data.h"

namespace strata::trainer {

// Makes `edges` directed edges, with repetitions. Targets are uniform and sources are cubes of uniform numbers, so that
// a thousandth of the nodes has a tenth of the edges. Features and labels are random; sparse features have eight
// entries per node, whose columns may repeat. Four of five nodes are for training, the others for validation.
struct SyntheticGraph {
  int64_t nodes, edges, features, classes;
  bool sparse_features;
  uint64_t seed;
};
GraphData make_graph(const SyntheticGraph& size);

}  // namespace strata::trainer
