// SPDX-License-Identifier: MIT
// How large the graphs of a step are: what the shapes of its ops follow from.
#pragma once

#include <cstdint>
#include <vector>

#include "modules/graph_step.h"

namespace strata::trainer {

// Of a sparse matrix.
struct MatrixSize {
  int64_t rows = 0, columns = 0, entries = 0;
  bool weighted = false;
};

inline MatrixSize size_of(const modules::WeightedGraph& matrix) {
  if (!matrix.graph.by_target.neighbors.defined()) return {};
  return {matrix.graph.targets, matrix.graph.sources, matrix.graph.edges(), matrix.edge_weight.defined()};
}

// See modules::GraphStep.
struct GraphSizes {
  int64_t nodes = 0;  // whose features come in
  MatrixSize features = {}, pooling = {};
  std::vector<MatrixSize> layers = {};  // empty: nothing is known

  GraphSizes() = default;
  GraphSizes(const modules::GraphStep& step, int64_t nodes)
      : nodes(nodes), features(size_of(step.features)), pooling(size_of(step.pooling)) {
    for (const modules::WeightedGraph& layer : step.layers) layers.push_back(size_of(layer));
  }

  MatrixSize of_layer(int64_t layer) const {
    if (layers.size() <= 1) return layers.empty() ? MatrixSize() : layers.front();
    return layers.at(static_cast<size_t>(layer));
  }
  int64_t inputs_of_layer(int64_t layer) const { return layer == 0 ? nodes : of_layer(layer - 1).rows; }
};

}  // namespace strata::trainer
