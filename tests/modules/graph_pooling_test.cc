// SPDX-License-Identifier: MIT
// Compares poolings with global_mean_pool, global_add_pool and AttentionalAggregation of PyG with the same weights:
// outputs and gradients, at every level for CPUs.
#include "modules/graph/graph_pooling.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "modules/model_sources.h"
#include "tests/modules/pyg_reference.h"

namespace strata::modules {
namespace {

NodePooling kind_of(const std::string& word) {
  const auto all = names(NodePooling{});
  return static_cast<NodePooling>(std::find(all.begin(), all.end(), word) - all.begin());
}

void compare(const Json& json, kernels::Level level) {
  SCOPED_TRACE(json["pooling"].get<std::string>() + " at level " + std::string(kernels::name(level)));
  const int64_t width = json["width"];
  std::map<std::string, Tensor> parameters;
  for (const auto& [name, values] : json["parameters"].items()) {
    const std::vector<int64_t> shape =
        name.ends_with("bias") ? std::vector<int64_t>{1} : std::vector<int64_t>{1, width};
    parameters[name] = tensor_of(values["value"], shape).requires_grad_(true);
  }
  const GraphNetworkConfig config{.pooling = kind_of(json["pooling"]), .width = width};
  KernelsConfig kernels;
  kernels.levels.neighbor_aggregate = level;
  BindingSource source([&](const std::string& name) { return parameters.at(name); });
  const GraphPooling pooling(Scope(source, kernels).head("pooling"), config);

  const Tensor sizes = at::tensor(json["sizes"].get<std::vector<int64_t>>(), at::kLong);
  const int64_t graphs = sizes.numel(), nodes = sizes.sum().item<int64_t>();
  const Tensor offsets = at::cat({at::zeros({1}, at::kLong), sizes.cumsum(0)});
  const WeightedGraph nodes_of_graphs{kernels::NeighborGraph::from_csr(offsets, at::arange(nodes, at::kLong), nodes),
                                      {}};

  const Tensor x = tensor_of(json["x"], {nodes, width}).requires_grad_(true);
  const Tensor y = pooling(x, nodes_of_graphs);
  EXPECT_LT(relative_error(y, tensor_of(json["y"], {graphs, width})), 2e-6);
  y.backward(tensor_of(json["y_gradient"], {graphs, width}));
  EXPECT_LT(relative_error(x.grad(), tensor_of(json["x_gradient"], {nodes, width})), 2e-6);
  for (const auto& [name, parameter] : parameters) {
    const Tensor theirs = tensor_of(json["parameters"][name]["gradient"], parameter.sizes().vec());
    // The gradient of the bias is 0, because a softmax does not change if all scores change alike.
    EXPECT_LT(at::abs(parameter.grad() - theirs).max().item<double>(), 2e-6) << name;
  }
}

TEST(GraphPooling, IsThatOfPyG) {
  ASSERT_EQ(reference()["poolings"].size(), 3u);
  for (const Json& json : reference()["poolings"]) {
    for (const kernels::Level level : {kernels::Level::aten, kernels::Level::torchscript}) compare(json, level);
  }
}

}  // namespace
}  // namespace strata::modules
