// SPDX-License-Identifier: MIT
// One graph convolution: computes a node's output from the node and its neighbors.
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/activation/activation_kind.h"
#include "kernels/neighbor_aggregate/reduction.h"
#include "modules/config/graph_network_config.h"
#include "modules/graph/graph_step.h"
#include "modules/layer.h"
#include "modules/mlp.h"
#include "modules/scope.h"

namespace strata::modules {

//   sage  self.weight x[t] + neighbor.weight * (mean or max of x[s]) + neighbor.bias
//   gcn   neighbor.weight * (sum of x[s] / sqrt(degree[s] degree[t])) + neighbor.bias; t is one of its own neighbors
//   gin   mlp(x[t] + sum of x[s]), mlp(x) = down(activation(up(x)))
//   gat   sum of softmax(leaky_relu(source . h[s] + target . h[t])) h[s] + neighbor.bias, h = neighbor.weight x
// t is one of its own neighbors in gat. Its heads are concatenated; in the layer that gives classes they are averaged.
class GraphConvolution {
 public:
  // `scope` is the scope of the layer. aggregated_once: the input features are aggregated over neighbors once, before
  // the first step, because the graph is the same in every step.
  GraphConvolution(const Scope& scope, const GraphNetworkConfig& config, int64_t layer, bool aggregated_once);

  // x [S, D] -> [T, outputs]. If the graph is split over ranks, x holds the rank's own nodes, and the halo is exchanged
  // here. The halo of input features is not exchanged, because every rank has it from the start. The context must hold
  // a GraphStep.
  Tensor operator()(const Tensor& x, const StepContext& context) const;

  // Returns the input of the product for each target: sage concatenates the node and the mean or max of its neighbors,
  // gcn and gin sum. Undefined for gat, which sums after the product.
  Tensor aggregated(const Tensor& x, const GraphStep& step) const;

 private:
  void declare_products(const Scope& scope, const GraphNetworkConfig& config);
  Tensor product_of(const Tensor& aggregated, const StepContext& context) const;
  Tensor sum_of_products(const Tensor& x, const GraphStep& step) const;
  Tensor gat(const Tensor& x, const GraphStep& step) const;
  Tensor targets_of(const Tensor& x, const GraphStep& step) const;
  Tensor sources_of(const Tensor& x, const GraphStep& step) const;
  Tensor aggregate(const Tensor& x, const GraphStep& step) const;
  Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, kernels::Activation activation) const;
  Tensor activated(const Tensor& y) const;

  int64_t layer_;
  bool takes_features_;
  GraphConvolutionKind kind_;
  kernels::Reduction reduction_;
  bool multiplies_first_;
  kernels::Activation activation_;  // in which the convolution ends, or none
  bool averages_heads_;
  int64_t heads_;
  Tensor neighbor_weight_, neighbor_bias_, self_weight_;
  Tensor source_, target_;  // [H, outputs of a head]
  std::optional<Mlp> mlp_;  // only in gin
  // Levels stay aten for ops that this kind of convolution does not compute.
  kernels::Level neighbor_level_ = {};  // level of the products with the neighbor and self weights
  kernels::Level scores_level_ = {}, aggregate_level_ = {}, activation_level_ = {};
};

}  // namespace strata::modules
