// SPDX-License-Identifier: MIT
// Compares graph convolutions with those of PyG with the same weights: outputs, gradients and initialization.
#include "modules/graph/graph_convolution.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/text/word_of.h"
#include "kernels/activation/activation.h"
#include "modules/initialization.h"
#include "modules/model_sources.h"
#include "tests/modules/pyg_reference.h"
#include "trainer/data/graphs/convolution_matrix.h"
#include "trainer/tasks/declared_model.h"

namespace strata::modules {
namespace {

GraphConvolutionKind kind_of(const std::string& word) {
  const auto all = names(GraphConvolutionKind{});
  return static_cast<GraphConvolutionKind>(std::find(all.begin(), all.end(), word) - all.begin());
}

// A network whose first layer has these sizes. It is also the last layer, except for gat, whose last layer averages its
// heads. The norm keeps the next layer's activation out of the convolution.
GraphNetworkConfig network_for(const Json& json) {
  GraphNetworkConfig config{.convolution = kind_of(json["kind"]),
                            .features = json["inputs"],
                            .layers = 1,
                            .width = json.value("width", json["outputs"].get<int64_t>()),
                            .classes = json["outputs"],
                            .heads = json["heads"]};
  if (json.value("reduction", "mean") == "max") config.reduction = SageReduction::max;
  if (config.convolution == GraphConvolutionKind::gat && !json.value("last", false)) {
    config.layers = 2;
    config.width = json["outputs"];
    config.norm = true;
  }
  return config;
}

GraphStep step_for(const GraphNetworkConfig& config) {
  trainer::GraphData data{.name = "reference", .nodes = reference()["nodes"]};
  std::vector<int64_t> sources, targets;
  for (const auto& edge : reference()["edges"]) sources.push_back(edge[0]), targets.push_back(edge[1]);
  trainer::set_edges(data, at::tensor(sources, at::kLong), at::tensor(targets, at::kLong), /*undirected=*/false);
  const trainer::SparseRows rows = trainer::convolution_matrix(config, data);
  GraphStep step;
  step.layers = {{kernels::NeighborGraph::from_csr(rows.offsets, rows.columns, data.nodes), rows.values}};
  return step;
}

StepContext context_with(const GraphStep& step) {
  StepContext context;
  context.put(std::make_shared<const GraphStep>(step));
  return context;
}

TEST(GraphConvolution, IsThatOfPyG) {
  for (const Json& json : reference()["cases"]) {
    SCOPED_TRACE(json["kind"].get<std::string>() + " " + json["reduction"].get<std::string>() + " " +
                 json["inputs"].dump() + " to " + json["outputs"].dump() + ", heads " + json["heads"].dump());
    const GraphNetworkConfig config = network_for(json);
    std::map<std::string, Tensor> parameters;
    for (const ParameterGroup& group : trainer::declared_groups({.type = config})) {
      for (const Parameter& parameter : group.parameters) {
        const std::string prefix = "layers.0.";
        if (!parameter.name.starts_with(prefix)) continue;
        const Json& values = json["parameters"].at(parameter.name.substr(prefix.size()))["value"];
        parameters[parameter.name] = tensor_of(values, parameter.shape).requires_grad_(true);
      }
    }
    ASSERT_EQ(parameters.size(), json["parameters"].size());
    const auto clear_gradients = [&] {
      for (auto& [name, parameter] : parameters) parameter.mutable_grad() = Tensor();
    };
    const auto expect_gradients = [&] {
      for (const auto& [name, parameter] : parameters) {
        const Json& gradient = json["parameters"].at(name.substr(9))["gradient"];
        EXPECT_LT(relative_error(parameter.grad(), tensor_of(gradient, parameter.sizes().vec())), 2e-6) << name;
      }
    };
    BindingSource source([&](const std::string& name) { return parameters.at(name); });
    const KernelsConfig kernels;
    const GraphConvolution convolution(Scope(source, kernels).layer("layers.0"), config, /*layer=*/0,
                                       /*aggregated_once=*/false);
    const int64_t nodes = reference()["nodes"];
    const Tensor x = tensor_of(json["x"], {nodes, json["inputs"]}).requires_grad_(true);
    GraphStep step = step_for(config);
    const Tensor y = convolution(x, context_with(step));
    EXPECT_LT(relative_error(y, tensor_of(json["y"], {nodes, json["outputs"]})), 2e-6);
    y.backward(tensor_of(json["y_gradient"], {nodes, json["outputs"]}));
    EXPECT_LT(relative_error(x.grad(), tensor_of(json["x_gradient"], {nodes, json["inputs"]})), 2e-6);
    expect_gradients();

    // Repeats the test with features that were aggregated once.
    step.aggregated_features = convolution.aggregated(x.detach(), step);
    EXPECT_EQ(step.aggregated_features.defined(), config.convolution != GraphConvolutionKind::gat);
    clear_gradients();
    const Tensor again = convolution(x.detach(), context_with(step));
    EXPECT_LT(relative_error(again, tensor_of(json["y"], {nodes, json["outputs"]})), 2e-6);
    again.backward(tensor_of(json["y_gradient"], {nodes, json["outputs"]}));
    expect_gradients();
  }
}

// The network is changed from one with a norm before the activation of the second layer to one without.
void expect_end_in_activation(const char* kind, GraphActivation activation) {
  for (const int64_t width : {3, 8}) {
    SCOPED_TRACE(std::string(kind) + " of 5 to " + std::to_string(width));
    GraphNetworkConfig config{.convolution = kind_of(kind),
                              .features = 5,
                              .layers = 2,
                              .width = width,
                              .classes = 2,
                              .activation = activation,
                              .norm = true};
    const auto convolution = [&config] {
      const auto parameter = [&config](const std::string& name) {
        for (const ParameterGroup& group : trainer::declared_groups({.type = config})) {
          for (const Parameter& parameter : group.parameters) {
            if (parameter.name != name) continue;
            std::vector<float> values(static_cast<size_t>(parameter.elements()));
            initialize_parameter(parameter, /*seed=*/1, /*layers=*/2, 0, parameter.elements(), values.data());
            return at::tensor(values, at::kFloat).view(parameter.shape);
          }
        }
        ADD_FAILURE() << name;
        return Tensor();
      };
      BindingSource source(parameter);
      const KernelsConfig kernels;
      return GraphConvolution(Scope(source, kernels).layer("layers.0"), config, /*layer=*/0,
                              /*aggregated_once=*/false);
    };
    const StepContext context = context_with(step_for(config));
    const Tensor x = at::randn({reference()["nodes"], 5});
    const Tensor y = convolution()(x, context);
    config.norm = false;
    const bool is_epilogue = activation != GraphActivation::silu;
    EXPECT_TRUE(at::equal(convolution()(x, context),
                          is_epilogue ? kernels::activation(y, config.activation_kind(), kernels::Level::aten) : y));
    config.dropout = 0.5;
    EXPECT_TRUE(at::equal(convolution()(x, context), y));
  }
}

TEST(GraphConvolution, EndsInTheActivationOfTheNextLayerWhereNothingStandsBetween) {
  for (const char* kind : {"sage", "gcn", "gin", "gat"}) {
    for (const GraphActivation activation :
         {GraphActivation::relu, GraphActivation::gelu, GraphActivation::gelu_tanh, GraphActivation::silu}) {
      SCOPED_TRACE(word_of(activation));
      expect_end_in_activation(kind, activation);
    }
  }
}

TEST(GraphConvolution, StartsAsInPyG) {
  for (const Json& json : reference()["first_values"]) {
    const std::vector<ParameterGroup> table = trainer::declared_groups({.type = network_for(json)});
    for (const Parameter& parameter : table[0].parameters) {
      SCOPED_TRACE(json["kind"].get<std::string>() + " " + parameter.name);
      const Json& theirs = json["parameters"].at(parameter.name.substr(9));
      std::vector<float> values;
      for (uint64_t seed = 1; seed <= 40; ++seed) {
        std::vector<float> some(static_cast<size_t>(parameter.elements()));
        initialize_parameter(parameter, seed, /*layers=*/1, 0, parameter.elements(), some.data());
        values.insert(values.end(), some.begin(), some.end());
      }
      double largest = 0, squares = 0;
      for (const float value : values) {
        largest = std::max<double>(largest, std::abs(value));
        squares += static_cast<double>(value) * value;
      }
      EXPECT_NEAR(largest, theirs["largest"].get<double>(), 0.01 * theirs["largest"].get<double>());
      EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), theirs["deviation"].get<double>(),
                  0.04 * theirs["deviation"].get<double>());
    }
  }
}

}  // namespace
}  // namespace strata::modules
