// SPDX-License-Identifier: MIT
#include "modules/graph_convolution.h"

#include <ATen/ops/add.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sum.h>

#include "kernels/linear/linear.h"
#include "kernels/weight_gradient.h"

// S sources, T targets, D inputs, H heads, F outputs of a head

namespace strata::modules {
namespace {

constexpr double kNegativeSlope = 0.2;  // GATConv's

using kernels::Reduction;

Tensor with_bias(const Tensor& y, const Tensor& bias) { return at::add(y, kernels::deliver_weight_gradient(bias)); }

Reduction reduction_of(const GraphNetworkConfig& config) {
  if (config.convolution != GraphConvolutionKind::sage) return Reduction::sum;
  return config.reduction == SageReduction::mean ? Reduction::mean : Reduction::max;
}

}  // namespace

GraphConvolution::GraphConvolution(const ParameterLookup& parameter, const std::string& name,
                                   const GraphNetworkConfig& config, int64_t layer, const KernelSelection& kernels)
    : layer_(layer),
      takes_features_(!config.is_activated(layer)),
      kind_(config.convolution),
      reduction_(reduction_of(config)),
      narrows_(config.outputs_of(layer) < config.inputs_of(layer)),
      averages_heads_(config.gives_classes(layer)),
      heads_(config.heads),
      linear_level_(kernels.linear),
      aggregate_level_(kernels.neighbor_aggregate) {
  const auto find = [&](const char* part) { return parameter(name + "." + part); };
  if (kind_ == GraphConvolutionKind::gin) {
    up_weight_ = find("mlp.up.weight"), up_bias_ = find("mlp.up.bias");
    down_weight_ = find("mlp.down.weight"), down_bias_ = find("mlp.down.bias");
    return;
  }
  neighbor_weight_ = find("neighbor.weight"), neighbor_bias_ = find("neighbor.bias");
  if (kind_ == GraphConvolutionKind::sage) self_weight_ = find("self.weight");
  if (kind_ == GraphConvolutionKind::gat) source_ = find("attention.source"), target_ = find("attention.target");
}

Tensor GraphConvolution::operator()(const Tensor& x, const GraphStep& step) const {
  switch (kind_) {
    case GraphConvolutionKind::sage:
      return sage(x, step);
    case GraphConvolutionKind::gcn:
      return gcn(x, step);
    case GraphConvolutionKind::gin:
      return gin(x, step);
    case GraphConvolutionKind::gat:
      break;
  }
  return gat(x, step);
}

Tensor GraphConvolution::sage(const Tensor& x, const GraphStep& step) const {
  const Tensor x_TD = targets_of(x, step);
  if (narrows_ && reduction_ == Reduction::mean) {
    return at::add(linear(x_TD, self_weight_, neighbor_bias_), aggregate(linear(x, neighbor_weight_, {}), step));
  }
  return at::add(linear(x_TD, self_weight_, {}), linear(aggregate(x, step), neighbor_weight_, neighbor_bias_));
}

Tensor GraphConvolution::gcn(const Tensor& x, const GraphStep& step) const {
  if (narrows_) return with_bias(aggregate(linear(x, neighbor_weight_, {}), step), neighbor_bias_);
  return linear(aggregate(x, step), neighbor_weight_, neighbor_bias_);
}

Tensor GraphConvolution::gin(const Tensor& x, const GraphStep& step) const {
  const Tensor sum_TD = at::add(targets_of(x, step), aggregate(x, step));
  const Tensor inner = kernels::linear(sum_TD, up_weight_, up_bias_, kernels::Activation::relu, linear_level_);
  return linear(inner, down_weight_, down_bias_);
}

Tensor GraphConvolution::gat(const Tensor& x, const GraphStep& step) const {
  const Tensor h_SHF = sources_of(linear(x, neighbor_weight_, {}), step).unflatten(1, {heads_, -1});
  const auto score = [](const Tensor& h, const Tensor& weight_HF) {
    return at::sum(at::mul(h, kernels::deliver_weight_gradient(weight_HF)), -1);
  };
  const Tensor y_THF =
      kernels::neighbor_attention(h_SHF, score(h_SHF, source_), score(targets_of(h_SHF, step), target_),
                                  step.of_layer(layer_).graph, kNegativeSlope, aggregate_level_);
  return with_bias(averages_heads_ ? at::mean(y_THF, 1) : y_THF.flatten(1), neighbor_bias_);
}

Tensor GraphConvolution::targets_of(const Tensor& x, const GraphStep& step) const {
  return x.narrow(0, 0, step.of_layer(layer_).graph.targets);
}

Tensor GraphConvolution::sources_of(const Tensor& x, const GraphStep& step) const {
  // Not by the sizes: a rank that needs nothing of the others has something that they need.
  return step.with_halo && !takes_features_ ? step.with_halo(x) : x;
}

Tensor GraphConvolution::aggregate(const Tensor& x, const GraphStep& step) const {
  const auto& [graph, edge_weight] = step.of_layer(layer_);
  return kernels::neighbor_aggregate(sources_of(x, step), graph, edge_weight, reduction_, aggregate_level_);
}

Tensor GraphConvolution::linear(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
  return kernels::linear(x, weight, bias, kernels::Activation::none, linear_level_);
}

}  // namespace strata::modules
