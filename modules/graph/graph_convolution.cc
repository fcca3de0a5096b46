// SPDX-License-Identifier: MIT
#include "modules/graph/graph_convolution.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/diag_embed.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/neg.h>

#include <cmath>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/linear/linear.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate.h"
#include "kernels/runtime/gradient_destination.h"
#include "kernels/runtime/traced.h"

// S sources, T targets, D inputs, H heads, F outputs of one head

namespace strata::modules {
namespace {

constexpr double kNegativeSlope = 0.2;  // the default of PyG's GATConv

using kernels::Activation;
using kernels::Reduction;
using kernels::with_gradient_destination;

Reduction reduction_of(const GraphNetworkConfig& config) {
  if (config.convolution != GraphConvolutionKind::sage) return Reduction::sum;
  switch (config.reduction) {
    case SageReduction::mean:
      return Reduction::mean;
    case SageReduction::max:
      return Reduction::max;
  }
  return Reduction::sum;  // unreachable: the switch is complete
}

// True if the product comes before the sum over neighbors, because outputs are narrower than inputs. The sum must be a
// linear function of the neighbors, which gin and max are not.
bool multiplies_first(const GraphNetworkConfig& config, int64_t layer) {
  const bool is_linear = config.convolution != GraphConvolutionKind::gin && reduction_of(config) != Reduction::max;
  return is_linear && config.outputs_of(layer) < config.inputs_of(layer);
}

// The part of a layer that sums over neighbors or attends to them. Empty: the layer itself.
const char* part_that_aggregates(GraphConvolutionKind convolution) {
  switch (convolution) {
    case GraphConvolutionKind::gin:
      return "";
    case GraphConvolutionKind::gat:
      return "attention";
    case GraphConvolutionKind::sage:
    case GraphConvolutionKind::gcn:
      return "neighbor";
  }
  return "";  // unreachable: the switch is complete
}

// True if the layer multiplies what was aggregated before the first step. `aggregated_once`: the features were
// aggregated once, because the graph is the same in every step. gat multiplies first and aggregates afterwards, so it
// never does.
bool takes_aggregated_features(const GraphNetworkConfig& config, int64_t layer, bool aggregated_once) {
  return aggregated_once && !config.is_activated(layer) && config.convolution != GraphConvolutionKind::gat;
}

// Width of one head of gat. The outputs of heads are concatenated; in the layer that gives classes they are averaged.
int64_t outputs_of_head(const GraphNetworkConfig& config, int64_t layer) {
  return config.gives_classes(layer) ? config.outputs_of(layer) : config.outputs_of(layer) / config.heads;
}

// Rounds the outputs up to whole vectors of 16 bytes, in which GPUs read rows.
int64_t width_in_vectors(int64_t outputs, int64_t element_bytes) {
  const int64_t width = 16 / element_bytes;
  return (outputs + width - 1) / width * width;
}

// Pads the outputs of a weight or bias with zeros to vectors of 16 bytes, in which GPUs read rows. Without it, the sum
// of 47 values of 16 bits over a graph takes three times as long as of 48.
Tensor in_vectors(const Tensor& weight) {
  const int64_t lacks = width_in_vectors(weight.size(0), weight.element_size()) - weight.size(0);
  const Tensor alias = with_gradient_destination(weight);
  if (lacks == 0 || kernels::on_cpu(weight)) return alias;
  std::vector<int64_t> padding(static_cast<size_t>(2 * weight.dim()), 0);
  padding.back() = lacks;
  return at::constant_pad_nd(alias, padding);
}

// [H, F] -> [H, H * F], block-diagonal: one product computes the scores of all heads.
Tensor by_heads(const Tensor& weight_HF) {
  return at::diag_embed(with_gradient_destination(weight_HF).t(), /*offset=*/0, /*dim1=*/0, /*dim2=*/1).flatten(1);
}

// torch.nn.Linear and PyG's Linear initialize uniformly between -bound and bound.
double bound_of_linear(int64_t inputs) { return 1 / std::sqrt(static_cast<double>(inputs)); }

// Initialization of Glorot and Bengio 2010.
Parameter glorot(const char* name, int64_t rows, int64_t columns) {
  return {name, {rows, columns}, Initialization::uniform, std::sqrt(6.0 / static_cast<double>(rows + columns))};
}

}  // namespace

GraphConvolution::GraphConvolution(const Scope& scope, const GraphNetworkConfig& config, int64_t layer,
                                   bool aggregated_once)
    : layer_(layer),
      takes_features_(!config.is_activated(layer)),
      kind_(config.convolution),
      reduction_(reduction_of(config)),
      multiplies_first_(multiplies_first(config, layer)),
      activation_(config.ends_in_activation(layer) ? config.activation_kind() : Activation::none),
      averages_heads_(config.gives_classes(layer)),
      heads_(config.heads) {
  if (kind_ == GraphConvolutionKind::gin) {
    mlp_.emplace(scope / "mlp", Mlp::Options{.inputs = config.inputs_of(layer),
                                             .feed_forward = config.width,
                                             .outputs = config.outputs_of(layer),
                                             .activation = config.activation_kind(),
                                             .last_activation = activation_,
                                             .inner_initialization = Initialization::uniform,
                                             .last_initialization = Initialization::uniform});
  } else {
    declare_products(scope, config);
  }
  aggregate_level_ = (scope / part_that_aggregates(kind_)).level("neighbor_aggregate");
  // An activation right after the last product is its epilogue. Otherwise it is an op of the layer.
  const bool is_last_product = kind_ != GraphConvolutionKind::gat &&
                               (!multiplies_first_ || takes_aggregated_features(config, layer, aggregated_once));
  if (activation_ != Activation::none && !is_last_product) activation_level_ = scope.level("activation");
}

void GraphConvolution::declare_products(const Scope& scope, const GraphNetworkConfig& config) {
  const Scope neighbor = scope / "neighbor";
  const int64_t inputs = config.inputs_of(layer_), outputs = config.outputs_of(layer_);
  neighbor_level_ = neighbor.level("linear");
  switch (kind_) {
    case GraphConvolutionKind::sage: {
      const double bound = bound_of_linear(inputs);
      neighbor_weight_ = neighbor.parameter({"weight", {outputs, inputs}, Initialization::uniform, bound});
      neighbor_bias_ = neighbor.parameter({"bias", {outputs}, Initialization::uniform, bound});
      self_weight_ = (scope / "self").parameter({"weight", {outputs, inputs}, Initialization::uniform, bound});
      return;
    }
    case GraphConvolutionKind::gat: {
      const int64_t head_outputs = outputs_of_head(config, layer_);
      neighbor_weight_ = neighbor.parameter(glorot("weight", heads_ * head_outputs, inputs));
      source_ = (scope / "attention").parameter(glorot("source", heads_, head_outputs));
      target_ = (scope / "attention").parameter(glorot("target", heads_, head_outputs));
      scores_level_ = (scope / "attention").level("linear");
      break;
    }
    case GraphConvolutionKind::gcn:
      neighbor_weight_ = neighbor.parameter(glorot("weight", outputs, inputs));
      break;
    case GraphConvolutionKind::gin:
      break;
  }
  neighbor_bias_ = neighbor.parameter({"bias", {outputs}, Initialization::zeros});
}

Tensor GraphConvolution::operator()(const Tensor& x, const StepContext& context) const {
  const auto& step = context.get<GraphStep>();
  if (kind_ == GraphConvolutionKind::gat) return gat(x, step);
  if (takes_features_ && step.aggregated_features.defined()) return product_of(step.aggregated_features, context);
  return multiplies_first_ ? sum_of_products(x, step) : product_of(aggregated(x, step), context);
}

Tensor GraphConvolution::aggregated(const Tensor& x, const GraphStep& step) const {
  switch (kind_) {
    case GraphConvolutionKind::sage:
      return at::cat({targets_of(x, step), aggregate(x, step)}, 1);
    case GraphConvolutionKind::gcn:
      return aggregate(x, step);
    case GraphConvolutionKind::gin:
      return at::add(targets_of(x, step), aggregate(x, step));
    case GraphConvolutionKind::gat:
      break;
  }
  return {};
}

Tensor GraphConvolution::product_of(const Tensor& aggregated, const StepContext& context) const {
  if (mlp_) return (*mlp_)(aggregated, context);
  // sage multiplies once with the concatenated weights. Two products and their sum would move twice as many bytes.
  const Tensor weight =
      kind_ == GraphConvolutionKind::sage
          ? at::cat({with_gradient_destination(self_weight_), with_gradient_destination(neighbor_weight_)}, 1)
          : neighbor_weight_;
  return linear(aggregated, weight, neighbor_bias_, activation_);
}

Tensor GraphConvolution::sum_of_products(const Tensor& x, const GraphStep& step) const {
  const Tensor weight = in_vectors(neighbor_weight_), bias = in_vectors(neighbor_bias_);
  const Tensor sum = aggregate(linear(x, weight, {}, Activation::none), step);
  const Tensor y = kind_ == GraphConvolutionKind::gcn
                       ? at::add(sum, bias)
                       : at::add(linear(targets_of(x, step), in_vectors(self_weight_), bias, Activation::none), sum);
  return activated(y.narrow(1, 0, neighbor_bias_.size(0)));
}

Tensor GraphConvolution::gat(const Tensor& x, const GraphStep& step) const {
  // The attention weights of a target sum to 1. So its bias can be added to h, as the bias of the product, which saves
  // a pass over the nodes.
  const Tensor bias = with_gradient_destination(neighbor_bias_),
               repeated_bias = averages_heads_ ? bias.repeat(heads_) : bias;
  const Tensor h = sources_of(linear(x, neighbor_weight_, repeated_bias, Activation::none), step);
  // The scores must follow from h without the bias, so this bias subtracts it.
  const Tensor weight = at::cat({by_heads(source_), by_heads(target_)});
  const Tensor scores =
      kernels::linear(h, weight, at::neg(at::mv(weight, repeated_bias)), Activation::none, scores_level_);
  const Tensor y_THF = kernels::neighbor_attention(h.unflatten(1, {heads_, -1}), scores.narrow(1, 0, heads_),
                                                   targets_of(scores, step).narrow(1, heads_, heads_),
                                                   step.layer_graph(layer_).graph, kNegativeSlope, aggregate_level_);
  return activated(averages_heads_ ? at::mean(y_THF, 1) : y_THF.flatten(1));
}

Tensor GraphConvolution::targets_of(const Tensor& x, const GraphStep& step) const {
  const int64_t targets = step.layer_graph(layer_).graph.targets;
  return x.size(0) == targets ? x : x.narrow(0, 0, targets);  // the backward of narrow is a pass over x
}

Tensor GraphConvolution::sources_of(const Tensor& x, const GraphStep& step) const {
  // The exchange does not depend on the sizes: a rank without a halo still sends rows that other ranks need.
  return step.with_halo && !takes_features_ ? step.with_halo(x) : x;
}

Tensor GraphConvolution::aggregate(const Tensor& x, const GraphStep& step) const {
  const auto& [graph, edge_weight] = step.layer_graph(layer_);
  return kernels::neighbor_aggregate(sources_of(x, step), graph, edge_weight, reduction_, aggregate_level_);
}

Tensor GraphConvolution::linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                Activation activation) const {
  return kernels::linear(x, weight, bias, activation, neighbor_level_);
}

Tensor GraphConvolution::activated(const Tensor& y) const {
  return activation_ == Activation::none ? y : kernels::activation(y, activation_, activation_level_);
}

}  // namespace strata::modules
