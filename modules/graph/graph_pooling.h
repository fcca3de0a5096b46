// SPDX-License-Identifier: MIT
// Pools the nodes of each graph into one row.
#pragma once

#include <optional>

#include "kernels/neighbor_aggregate/reduction.h"
#include "modules/config/graph_network_config.h"
#include "modules/graph/graph_step.h"
#include "modules/linear.h"
#include "modules/scope.h"

namespace strata::modules {

//   mean, sum  of x[n] over the nodes n of the graph
//   attention  sum of softmax(gate x + bias)[n] x[n]; the softmax is over the nodes of the graph
// The nodes of a graph are the neighbors of one target, so pooling uses the ops of convolutions.
class GraphPooling {
 public:
  // config.pooling must not be none.
  GraphPooling(const Scope& scope, const GraphNetworkConfig& config);

  // x [nodes, D] -> [graphs, D]
  Tensor operator()(const Tensor& x, const WeightedGraph& nodes_of_graphs) const;

 private:
  kernels::Reduction reduction_;
  std::optional<Linear> gate_;  // attention
  kernels::Level level_;
};

}  // namespace strata::modules
