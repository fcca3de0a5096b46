// SPDX-License-Identifier: MIT
// The graph of one step, as the layers read it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/neighbor_aggregate/neighbor_graph.h"

namespace strata::modules {

using at::Tensor;

// A sparse matrix. Its columns are sources, its rows are targets.
struct WeightedGraph {
  kernels::NeighborGraph graph;
  Tensor edge_weight;  // [edges], in the order of the graph's edges; undefined: 1

  WeightedGraph to(at::Device device) const {
    return with_each([&](const Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); });
  }
  // See NeighborGraph::with_each.
  WeightedGraph with_each(const std::function<Tensor(const Tensor&)>& replaced) const {
    return {graph.with_each(replaced), edge_weight.defined() ? replaced(edge_weight) : Tensor()};
  }
};

struct GraphStep {
  WeightedGraph features;  // nodes x features, if they are sparse
  // One graph for all layers, or one for each layer. The first sources of a graph are its targets.
  std::vector<WeightedGraph> layers;
  WeightedGraph pooling;  // graphs x their nodes, if graphs are classified
  int64_t first_row = 0;  // number of the first node over all ranks and micro-batches: see StepContext

  // The input of the first convolution's product if it is the same in every step; otherwise undefined.
  Tensor aggregated_features;

  // Exchanges the halo of a graph that is split over ranks: [own nodes, D] -> [sources, D], the own nodes first.
  std::function<Tensor(const Tensor&)> with_halo;

  const WeightedGraph& layer_graph(int64_t layer) const {
    return layers.size() == 1 ? layers.front() : layers.at(static_cast<size_t>(layer));
  }
};

// Returns a copy in which each tensor is replaced, always in the same order. A new member does not compile until it is
// listed here.
inline GraphStep with_each(const GraphStep& step, const std::function<Tensor(const Tensor&)>& replaced) {
  const auto& [features, layers, pooling, first_row, aggregated_features, with_halo] = step;
  GraphStep result;
  result.first_row = first_row, result.with_halo = with_halo;
  for (const WeightedGraph& layer : layers) result.layers.push_back(layer.with_each(replaced));
  result.features = features.with_each(replaced);
  result.pooling = pooling.with_each(replaced);
  if (aggregated_features.defined()) result.aggregated_features = replaced(aggregated_features);
  return result;
}

}  // namespace strata::modules
