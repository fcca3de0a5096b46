// SPDX-License-Identifier: MIT
#include "modules/graph/graph_pooling.h"

#include <ATen/ops/zeros.h>

#include "kernels/neighbor_aggregate/neighbor_aggregate.h"

namespace strata::modules {
namespace {

kernels::Reduction reduction_of(NodePooling pooling) {
  switch (pooling) {
    case NodePooling::mean:
      return kernels::Reduction::mean;
    case NodePooling::sum:
    case NodePooling::attention:  // of values times their share
    case NodePooling::none:       // nothing is pooled
      break;
  }
  return kernels::Reduction::sum;
}

}  // namespace

GraphPooling::GraphPooling(const Scope& scope, const GraphNetworkConfig& config)
    : reduction_(reduction_of(config.pooling)), level_(scope.level("neighbor_aggregate")) {
  if (config.pooling != NodePooling::attention) return;
  gate_.emplace(scope / "gate",
                Linear::Options{.outputs = 1, .inputs = config.width, .initialization = Initialization::uniform});
}

Tensor GraphPooling::operator()(const Tensor& x, const WeightedGraph& nodes_of_graphs) const {
  const kernels::NeighborGraph& graph = nodes_of_graphs.graph;
  if (!gate_) return kernels::neighbor_aggregate(x, graph, /*edge_weight=*/{}, reduction_, level_);
  const Tensor score = (*gate_)(x);
  // This is the attention of a convolution with one head. The target's score is 0, and a slope of 1 makes leaky_relu
  // the identity.
  const Tensor score_of_graph = at::zeros({graph.targets, 1}, score.options());
  return kernels::neighbor_attention(x.unsqueeze(1), score, score_of_graph, graph, /*negative_slope=*/1, level_)
      .squeeze(1);
}

}  // namespace strata::modules
