// SPDX-License-Identifier: MIT
// Compares graph networks of every activation in fp64 with their formulas, written with dense matrices: outputs and
// gradients. Counts the ops that stand between two convolutions.
#include "modules/graph/graph_network.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/text/word_of.h"
#include "kernels/dropout/dropout.h"
#include "kernels/runtime/call_observer.h"
#include "modules/model_sources.h"
#include "modules/selective_recompute.h"
#include "trainer/tasks/declared_model.h"

namespace strata::modules {
namespace {

constexpr int64_t kNodes = 8;
constexpr auto kActivations = names(GraphActivation{});

// Node t has the neighbors t + 1, t + 2 and t + 4 in a ring, and node 0 has none. Rows are targets.
Tensor adjacent() {
  const Tensor node = at::arange(kNodes, at::kLong), step = (node.unsqueeze(0) - node.unsqueeze(1)).remainder(kNodes);
  const Tensor edges = (step == 1).logical_or(step == 2).logical_or(step == 4).to(at::kDouble);
  edges.select(0, 0).zero_();
  return edges;
}

StepContext context_of(bool selective) {
  const Tensor edges = adjacent();
  const Tensor offsets = at::cat({at::zeros({1}, at::kLong), edges.sum(1).cumsum(0).to(at::kLong)});
  GraphStep step;
  step.layers = {{kernels::NeighborGraph::from_csr(offsets, at::nonzero(edges).select(1, 1).contiguous(), kNodes), {}}};
  StepContext context;
  context.dropout_key = at::full({1}, 11, at::kLong);
  context.put(std::make_shared<const GraphStep>(step));
  if (selective) context.put(std::make_shared<const SelectiveRecompute>());
  return context;
}

using Parameters = std::map<std::string, Tensor>;

// The first convolution narrows, the others do not.
GraphNetworkConfig network_with(GraphConvolutionKind convolution, GraphActivation activation, bool norm, bool residual,
                                double dropout) {
  return {.convolution = convolution,
          .features = 7,
          .layers = 4,
          .width = 5,
          .classes = 6,
          .activation = activation,
          .norm = norm,
          .residual = residual,
          .dropout = dropout};
}

Tensor output_of(const GraphNetworkConfig& config, const Parameters& parameters, const Tensor& x,
                 const StepContext& context) {
  BindingSource source([&](const std::string& name) { return parameters.at(name); });
  const KernelsConfig kernels;
  return GraphNetwork(config, Scope(source, kernels), /*features_are_aggregated_once=*/false)(x, context);
}

Tensor activated(const Tensor& x, GraphActivation activation) {
  switch (activation) {
    case GraphActivation::relu:
      return at::relu(x);
    case GraphActivation::gelu:
      return x * (1 + at::erf(x / std::sqrt(2.0))) / 2;
    case GraphActivation::gelu_tanh:
      return x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))) / 2;
    case GraphActivation::silu:
      return x * at::sigmoid(x);
  }
  return {};
}

// Norm, activation and dropout in the order of PyG's BasicGNN.
Tensor output_by_formula(const GraphNetworkConfig& config, const Parameters& parameters, const Tensor& features,
                         const StepContext& context) {
  const Tensor edges = adjacent(), mean = edges / edges.sum(1, /*keepdim=*/true).clamp_min(1);
  Tensor x = features;
  for (int64_t i = 0; i < config.layers; ++i) {
    const auto layer_weight = [&](const std::string& name) {
      return parameters.at("layers." + std::to_string(i) + "." + name);
    };
    const auto product = [&](const Tensor& input, const std::string& name) {
      return at::linear(input, layer_weight(name + ".weight"), layer_weight(name + ".bias"));
    };
    Tensor y = x;
    if (i > 0) {
      if (config.norm) {
        y = at::layer_norm(y, {config.width}, layer_weight("norm.weight"), layer_weight("norm.bias"),
                           config.norm_epsilon);
      }
      y = activated(y, config.activation);
      if (config.dropout > 0) {
        y = kernels::dropout(y, config.dropout, context.dropout_key, /*site=*/i + 1, /*first_row=*/0,
                             kernels::Level::aten);
      }
    }
    if (config.convolution == GraphConvolutionKind::sage) {
      y = product(mean.mm(y), "neighbor") + at::linear(y, layer_weight("self.weight"));
    } else {
      y = product(activated(product(y + edges.mm(y), "mlp.up"), config.activation), "mlp.down");
    }
    x = config.residual && i > 0 && i + 1 < config.layers ? x + y : y;
  }
  return x;
}

struct Result {
  Tensor output;
  Parameters gradients;
};

Result result_of(const Parameters& parameters, const Tensor& direction,
                 const std::function<Tensor(const Parameters&)>& network) {
  Parameters leaves;
  for (const auto& [name, value] : parameters) leaves[name] = value.clone().requires_grad_(true);
  Result result{network(leaves), {}};
  result.output.backward(direction);
  for (const auto& [name, leaf] : leaves) result.gradients[name] = leaf.grad();
  return result;
}

void expect_close(const Tensor& ours, const Tensor& theirs, double tolerance) {
  EXPECT_LE(at::abs(ours - theirs).max().item<double>(), tolerance * at::abs(theirs).max().item<double>());
}

// Returns the number of parameters whose gradient is 0: a relu may be 0 for all nodes of such a narrow network.
int64_t compare(const GraphNetworkConfig& config, bool selective) {
  at::manual_seed(3);
  Parameters parameters;
  for (const ParameterGroup& group : trainer::declared_groups({.type = config})) {
    for (const Parameter& parameter : group.parameters) {
      parameters[parameter.name] = at::randn(parameter.shape, at::kDouble) * 0.5;
    }
  }
  const Tensor x = at::randn({kNodes, config.features}, at::kDouble);
  const Tensor direction = at::randn({kNodes, config.classes}, at::kDouble);
  const StepContext context = context_of(selective);
  const Result ours =
      result_of(parameters, direction, [&](const Parameters& leaves) { return output_of(config, leaves, x, context); });
  const Result theirs = result_of(
      parameters, direction, [&](const Parameters& leaves) { return output_by_formula(config, leaves, x, context); });
  expect_close(ours.output, theirs.output, 1e-11);
  int64_t zeros = 0;
  for (const auto& [name, gradient] : theirs.gradients) {
    SCOPED_TRACE(name);
    expect_close(ours.gradients.at(name), gradient, 1e-10);
    zeros += !gradient.any().item<bool>();
  }
  return zeros;
}

TEST(GraphNetwork, IsItsFormula) {
  for (const GraphConvolutionKind convolution : {GraphConvolutionKind::sage, GraphConvolutionKind::gin}) {
    for (size_t activation = 0; activation < kActivations.size(); ++activation) {
      for (const bool norm : {false, true}) {
        for (const bool residual : {false, true}) {
          for (const double dropout : {0.0, 0.4}) {
            for (const bool selective : {false, true}) {
              SCOPED_TRACE(word_of(convolution) + " " + std::string(kActivations[activation]) + (norm ? " norm" : "") +
                           (residual ? " residual" : "") + (dropout > 0 ? " dropout" : "") +
                           (selective ? " selective" : ""));
              const auto kind = static_cast<GraphActivation>(activation);
              const int64_t zeros = compare(network_with(convolution, kind, norm, residual, dropout), selective);
              EXPECT_LE(zeros, kind == GraphActivation::relu ? 4 : 0);
            }
          }
        }
      }
    }
  }
}

using Calls = std::map<std::string, int64_t>;

// Counts forward calls of norms and activations.
struct Counter : kernels::CallObserver {
  void call(const kernels::OpShape& shape, kernels::Level, bool backward, at::ScalarType) override {
    const std::string op(shape.op());
    if (!backward && (op == "activation" || op.find("layer_norm") != std::string::npos)) ++calls[op];
  }
  Calls calls;
};

Calls calls_of(const GraphNetworkConfig& config) {
  Parameters parameters;
  for (const ParameterGroup& group : trainer::declared_groups({.type = config})) {
    for (const Parameter& parameter : group.parameters) {
      parameters[parameter.name] = at::full(parameter.shape, 0.1, at::kDouble);
    }
  }
  Counter counter;
  const kernels::ObservedCalls observed(counter);
  output_of(config, parameters, at::full({kNodes, config.features}, 0.1, at::kDouble), context_of(false));
  return counter.calls;
}

// Layers 1, 2 and 3 start with an activation. With `residual`, layers 2 and 3 get a pending branch.
TEST(GraphNetwork, NormsAndActivatesInOneOpWhereThereIsOne) {
  const auto calls = [](GraphActivation activation, bool norm, bool residual, double dropout = 0) {
    return calls_of(network_with(GraphConvolutionKind::gin, activation, norm, residual, dropout));
  };
  const GraphActivation gelu_tanh = GraphActivation::gelu_tanh, silu = GraphActivation::silu;
  EXPECT_EQ(calls(gelu_tanh, true, false), (Calls{{"layer_norm_gelu_tanh", 3}}));
  EXPECT_EQ(calls(gelu_tanh, true, false, 0.1), (Calls{{"layer_norm_gelu_tanh", 3}}));
  EXPECT_EQ(calls(gelu_tanh, true, true),
            (Calls{{"layer_norm_gelu_tanh", 1}, {"add_layer_norm", 2}, {"activation", 2}}));
  EXPECT_EQ(calls(GraphActivation::gelu, true, false), (Calls{{"layer_norm", 3}, {"activation", 3}}));
  EXPECT_EQ(calls(GraphActivation::relu, true, true),
            (Calls{{"layer_norm", 1}, {"add_layer_norm", 2}, {"activation", 3}}));
  for (const GraphActivation epilogue : {GraphActivation::relu, GraphActivation::gelu, gelu_tanh}) {
    EXPECT_EQ(calls(epilogue, false, false), Calls());
  }
  // The mlps of four layers have silu too.
  EXPECT_EQ(calls(silu, false, false), (Calls{{"activation", 7}}));
  EXPECT_EQ(calls(silu, true, false), (Calls{{"layer_norm", 3}, {"activation", 7}}));
}

}  // namespace
}  // namespace strata::modules
