// SPDX-License-Identifier: MIT
#include "modules/graph/graph_network.h"

#include <ATen/ops/add.h>

#include <optional>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/runtime/weight_gradient.h"
#include "modules/config/module_name.h"
#include "modules/dropout.h"
#include "modules/graph/graph_convolution.h"
#include "modules/made_again.h"
#include "modules/norm.h"

namespace strata::modules {
namespace {

Tensor sum_of(const Stream& stream) {
  return stream.branch.defined() ? at::add(stream.residual, stream.branch) : stream.residual;
}

// Norm, dropout, relu, convolution. Dropout stands in front of the relu, whose output is then all that has to be kept:
// both orders give the same numbers. A relu alone is the end of the convolution before.
class GraphLayer {
 public:
  GraphLayer(const ParameterLookup& parameter, int64_t index, const GraphNetworkConfig& config,
             const KernelsConfig& kernels)
      : starts_with_relu_(config.starts_with_relu(index)),
        adds_input_(config.adds_input(index)),
        dropout_(config.dropout, index + 1, kernels_for(kernels, graph_layer_name(index)).dropout),
        convolution_(parameter, graph_layer_name(index), config, index, kernels),
        activation_level_(kernels_for(kernels, graph_layer_name(index)).activation) {
    if (starts_with_relu_ && config.norm) {
      norm_.emplace(parameter, graph_layer_name(index) + ".norm", BlockConfig{.norm_epsilon = config.norm_epsilon},
                    kernels);
    }
  }

  Stream operator()(const Stream& stream, const StepContext& context) const {
    const auto convolve = [&](const Tensor& x) { return convolution_(x, context.get<GraphStep>()); };
    const auto [normed, sum] = norm_ ? (*norm_)(stream) : without_norm(stream);
    if (!starts_with_relu_) return {convolve(sum), {}};
    const Tensor active = activated(normed, context);
    Tensor result;
    if (context.find<MakeCheapAgain>() != nullptr) {
      const auto again = [*this, context](const Tensor& source) {
        return activated(norm_ ? norm_->of_sum(source) : source, context);
      };
      result = use_without_keeping({active, sum, again}, convolve);
    } else {
      result = convolve(active);
    }
    if (!adds_input_) return {result, {}};
    return {sum.narrow(0, 0, result.size(0)), result};
  }

  const GraphConvolution& convolution() const { return convolution_; }

 private:
  static Norm::Output without_norm(const Stream& stream) {
    const Tensor sum = sum_of(stream);
    return {sum, sum};
  }

  Tensor activated(const Tensor& normed, const StepContext& context) const {
    return kernels::activation(dropout_(normed, context), kernels::Activation::relu, activation_level_);
  }

  bool starts_with_relu_, adds_input_;
  std::optional<Norm> norm_;
  Dropout dropout_;
  GraphConvolution convolution_;
  kernels::Level activation_level_;
};

}  // namespace

GraphNetwork::GraphNetwork(const GraphNetworkConfig& config, const KernelsConfig& kernels,
                           const ParameterLookup& parameter)
    : projection_(config.projection),
      projection_weight_(config.has_projection() ? parameter("projection.weight") : Tensor()),
      projection_bias_(config.has_projection() ? parameter("projection.bias") : Tensor()),
      linear_level_(kernels_for(kernels, "projection").linear),
      aggregate_level_(kernels_for(kernels, "projection").neighbor_aggregate) {
  for (int64_t i = 0; i < config.layers; ++i) {
    GraphLayer layer(parameter, i, config, kernels);
    if (!config.is_activated(i)) first_ = layer.convolution();
    layers_.emplace_back(std::move(layer));
  }
  if (!config.has_pooling()) return;
  pooling_.emplace(parameter, config, kernels);
  head_.emplace(parameter, "head", /*has_bias=*/true, kernels::Activation::none, kernels);
}

void GraphNetwork::wrap_layers(const std::function<Layer(int64_t index, Layer layer)>& wrap) {
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i] = wrap(static_cast<int64_t>(i), std::move(layers_[i]));
}

Tensor GraphNetwork::operator()(const Tensor& features, const StepContext& context) const {
  Stream stream{projected(features, context), {}};
  for (const Layer& layer : layers_) stream = layer(stream, context);
  if (!pooling_) return stream.residual;
  return (*head_)((*pooling_)(sum_of(stream).to(head_->type()), context.get<GraphStep>().pooling));
}

Tensor GraphNetwork::gathered(const Tensor& features, const GraphStep& step) const {
  return first_ ? first_->gathered(features, step) : Tensor();
}

Tensor GraphNetwork::projected(const Tensor& features, const StepContext& context) const {
  switch (projection_) {
    case InputProjection::none:
      return features;
    case InputProjection::dense:
      return kernels::linear(features, projection_weight_, projection_bias_, kernels::Activation::none, linear_level_);
    case InputProjection::sparse:
      break;
  }
  const auto& [graph, values] = context.get<GraphStep>().features;
  return at::add(
      kernels::neighbor_aggregate(projection_weight_, graph, values, kernels::Reduction::sum, aggregate_level_),
      kernels::deliver_weight_gradient(projection_bias_));
}

}  // namespace strata::modules
