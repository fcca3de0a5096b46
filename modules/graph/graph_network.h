// SPDX-License-Identifier: MIT
// A classifier of nodes or graphs: graph convolutions, each after norm, activation and dropout.
#pragma once

#include <optional>
#include <vector>

#include "modules/config/graph_network_config.h"
#include "modules/graph/graph_convolution.h"
#include "modules/graph/graph_pooling.h"
#include "modules/graph/graph_step.h"
#include "modules/layer.h"
#include "modules/linear.h"
#include "modules/scope.h"

namespace strata::modules {

class GraphNetwork {
 public:
  // features_are_aggregated_once: the caller computes aggregated() once and, if that is a tensor, sets
  // GraphStep::aggregated_features to it in each step.
  GraphNetwork(const GraphNetworkConfig& config, const Scope& scope, bool features_are_aggregated_once);

  // Replaces each layer by the result of `wrap`: recomputation, timing, sharding.
  void wrap_layers(const WrapLayer& wrap);

  // features [sources of the first layer, features] -> logits [targets of the last layer, or graphs, classes]. Sparse
  // features are undefined here and come with the context. The context must hold a GraphStep.
  Tensor operator()(const Tensor& features, const StepContext& context) const;

  // Computes GraphStep::aggregated_features from dense features that the first convolution reads directly. They must be
  // the same in every step.
  Tensor aggregated(const Tensor& features, const GraphStep& step) const;

 private:
  void declare_projection(const GraphNetworkConfig& config, const Scope& scope);
  Tensor projected(const Tensor& features, const StepContext& context) const;

  InputProjection projection_;
  Tensor projection_weight_, projection_bias_;  // dense: [D, features]; sparse: [features, D]
  kernels::Level projection_level_ = {};   // level of linear if features are dense, of neighbor_aggregate if sparse
  std::optional<GraphConvolution> first_;  // defined if the first convolution reads the features
  std::vector<Layer> layers_;
  std::optional<GraphPooling> pooling_;
  std::optional<Linear> head_;  // after a pooling
};

}  // namespace strata::modules
