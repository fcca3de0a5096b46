// SPDX-License-Identifier: MIT
#include "modules/graph/graph_network.h"

#include <ATen/ops/add.h>

#include <cmath>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/runtime/gradient_destination.h"
#include "modules/config/module_name.h"
#include "modules/dropout.h"
#include "modules/norm.h"
#include "modules/selective_recompute.h"

namespace strata::modules {
namespace {

using kernels::Activation;

// Norm, activation, dropout, convolution, as in PyG's BasicGNN. Without norm, dropout and residual connections, the
// convolution of the layer before applies the activation as its epilogue. There is no epilogue for silu.
class GraphLayer {
 public:
  GraphLayer(const Scope& scope, int64_t index, const GraphNetworkConfig& config, bool aggregated_once)
      : starts_with_activation_(config.starts_with_activation(index)),
        adds_input_(config.adds_input(index)),
        activation_(config.norm_ends_in_gelu_tanh(index) ? Activation::none : config.activation_kind()),
        norm_(norm(scope / "norm", index, config)),
        dropout_(scope, starts_with_activation_ ? config.dropout : 0, index + 1),
        activation_level_(starts_with_activation_ && activation_ != Activation::none ? scope.level("activation")
                                                                                     : kernels::Level::aten),
        convolution_(scope, config, index, aggregated_once) {}

  ResidualStream operator()(const ResidualStream& stream, const StepContext& context) const {
    const auto convolve = [&](const Tensor& x) { return convolution_(x, context); };
    const auto [normed, sum] = norm_ ? (*norm_)(stream) : without_norm(stream);
    if (!starts_with_activation_) return {convolve(sum), {}};
    const Tensor active = activated(normed, context);
    Tensor result;
    if (context.find<SelectiveRecompute>() != nullptr) {
      const auto again = [*this, context](const Tensor& source) {
        return activated(norm_ ? norm_->normalize_sum(source) : source, context);
      };
      result = use_recomputed({active, sum, again}, convolve);
    } else {
      result = convolve(active);
    }
    if (!adds_input_) return {result, {}};
    return {sum.narrow(0, 0, result.size(0)), result};
  }

  const GraphConvolution& convolution() const { return convolution_; }

 private:
  static std::optional<Norm> norm(const Scope& scope, int64_t index, const GraphNetworkConfig& config) {
    if (!config.norm || !config.starts_with_activation(index)) return {};
    return Norm(scope, {.width = config.inputs_of(index),
                        .epsilon = config.norm_epsilon,
                        .gelu_tanh = config.norm_ends_in_gelu_tanh(index)});
  }

  static Norm::Output without_norm(const ResidualStream& stream) {
    const Tensor sum = stream.sum();
    return {sum, sum};
  }

  // Dropout comes last, as in PyG, except where both orders give the same numbers.
  Tensor activated(const Tensor& normed, const StepContext& context) const {
    if (activation_ == Activation::none) return dropout_(normed, context);
    if (kernels::is_homogeneous(activation_)) {
      return kernels::activation(dropout_(normed, context), activation_, activation_level_);
    }
    return dropout_(kernels::activation(normed, activation_, activation_level_), context);
  }

  bool starts_with_activation_, adds_input_;
  Activation activation_;  // none: the norm ends in it
  // The order in which the parameters of the layer are declared, and initialized.
  std::optional<Norm> norm_;
  Dropout dropout_;
  kernels::Level activation_level_;
  GraphConvolution convolution_;
};

}  // namespace

GraphNetwork::GraphNetwork(const GraphNetworkConfig& config, const Scope& scope, bool features_are_aggregated_once)
    : projection_(config.projection) {
  if (config.has_projection()) declare_projection(config, scope / "projection");
  for (int64_t i = 0; i < config.layers; ++i) {
    GraphLayer layer(scope.layer(graph_layer_name(i)), i, config, features_are_aggregated_once);
    if (!config.is_activated(i)) first_ = layer.convolution();
    layers_.emplace_back(std::move(layer));
  }
  if (!config.has_pooling()) return;
  pooling_.emplace(scope.head("pooling"), config);
  head_.emplace(
      scope.head("head"),
      Linear::Options{.outputs = config.classes, .inputs = config.width, .initialization = Initialization::uniform});
}

void GraphNetwork::declare_projection(const GraphNetworkConfig& config, const Scope& scope) {
  const bool sparse = projection_ == InputProjection::sparse;
  const int64_t rows = sparse ? config.features : config.width, columns = sparse ? config.width : config.features;
  const double bound = 1 / std::sqrt(static_cast<double>(config.features));
  projection_weight_ = scope.parameter({"weight", {rows, columns}, Initialization::uniform, bound});
  projection_bias_ = scope.parameter({"bias", {config.width}, Initialization::uniform, bound});
  projection_level_ = scope.level(sparse ? "neighbor_aggregate" : "linear");
}

void GraphNetwork::wrap_layers(const WrapLayer& wrap) { wrap_each(layers_, wrap); }

Tensor GraphNetwork::operator()(const Tensor& features, const StepContext& context) const {
  ResidualStream stream{projected(features, context), {}};
  for (const Layer& layer : layers_) stream = layer(stream, context);
  if (!pooling_) return stream.residual;
  return (*head_)((*pooling_)(stream.sum().to(head_->type()), context.get<GraphStep>().pooling));
}

Tensor GraphNetwork::aggregated(const Tensor& features, const GraphStep& step) const {
  return first_ ? first_->aggregated(features, step) : Tensor();
}

Tensor GraphNetwork::projected(const Tensor& features, const StepContext& context) const {
  switch (projection_) {
    case InputProjection::none:
      return features;
    case InputProjection::dense:
      return kernels::linear(features, projection_weight_, projection_bias_, kernels::Activation::none,
                             projection_level_);
    case InputProjection::sparse:
      break;
  }
  const auto& [graph, values] = context.get<GraphStep>().features;
  return at::add(
      kernels::neighbor_aggregate(projection_weight_, graph, values, kernels::Reduction::sum, projection_level_),
      kernels::with_gradient_destination(projection_bias_));
}

}  // namespace strata::modules
