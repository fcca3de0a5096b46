// SPDX-License-Identifier: MIT
// A classifier of nodes or graphs: graph convolutions with norm, dropout and relu in front of them.
#pragma once

#include <functional>
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
  // features_are_gathered_once: steps have GraphStep::gathered_features where gathered() gives some.
  GraphNetwork(const GraphNetworkConfig& config, const Scope& scope, bool features_are_gathered_once);

  // Replaces each layer by what `wrap` makes of it: recomputation, timing, sharding.
  void wrap_layers(const std::function<Layer(int64_t index, Layer layer)>& wrap);

  // features [sources of the first layer, features], undefined where they are sparse and the context has them ->
  // logits [targets of the last layer, or graphs, classes]. The context has a graph.
  Tensor operator()(const Tensor& features, const StepContext& context) const;

  // See GraphStep: of dense features that are the input of the first convolution and the same in every step.
  Tensor gathered(const Tensor& features, const GraphStep& step) const;

 private:
  void declare_projection(const GraphNetworkConfig& config, const Scope& scope);
  Tensor projected(const Tensor& features, const StepContext& context) const;

  InputProjection projection_;
  Tensor projection_weight_, projection_bias_;  // dense: [D, features]; sparse: [features, D]
  kernels::Level projection_level_ = {};        // of linear where it is dense, of neighbor_aggregate where it is sparse
  std::optional<GraphConvolution> first_;       // where it takes the features
  std::vector<Layer> layers_;
  std::optional<GraphPooling> pooling_;
  std::optional<Linear> head_;  // behind a pooling
};

}  // namespace strata::modules
