// SPDX-License-Identifier: MIT
// `model: {type: graph_network}`: a classifier of nodes or of graphs. Its graph convolutions have the names that they
// have in PyG.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "configs/checks.h"
#include "configs/limits.h"
#include "kernels/activation/activation_kind.h"
#include "modules/config/model_attention.h"
#include "modules/config/parameter_group.h"

namespace strata::modules {

// The kinds are PyG's SAGEConv, GCNConv, GINConv and GATConv. The mlp of gin is two linear layers with the activation
// of the network between them.
enum class GraphConvolutionKind { sage, gcn, gin, gat };
constexpr std::array<std::string_view, 4> names(GraphConvolutionKind) { return {"sage", "gcn", "gin", "gat"}; }

// The reduction of the neighbors of a node in sage.
enum class SageReduction { mean, max };
constexpr std::array<std::string_view, 2> names(SageReduction) { return {"mean", "max"}; }

// The layer between the node features and the first convolution.
enum class InputProjection { none, dense, sparse };
constexpr std::array<std::string_view, 3> names(InputProjection) { return {"none", "dense", "sparse"}; }

// The pooling of the nodes of a graph before a linear head: as PyG's global_mean_pool, global_add_pool, or
// AttentionalAggregation with a linear gate. none: nodes are classified, and the last convolution returns the logits.
enum class NodePooling { none, mean, sum, attention };
constexpr std::array<std::string_view, 4> names(NodePooling) { return {"none", "mean", "sum", "attention"}; }

// The activations of a network: the kinds of op activation. gelu_tanh is torch.nn.GELU(approximate="tanh").
enum class GraphActivation { relu, gelu, gelu_tanh, silu };
constexpr std::array<std::string_view, 4> names(GraphActivation) { return {"relu", "gelu", "gelu_tanh", "silu"}; }

struct GraphNetworkConfig {
  static constexpr std::string_view kItem = "node";
  static constexpr bool kHasBlocks = false, kIsGraph = true, kCanFuseHead = false;

  GraphConvolutionKind convolution = GraphConvolutionKind::sage;
  SageReduction reduction = SageReduction::mean;
  InputProjection projection = InputProjection::none;
  NodePooling pooling = NodePooling::none;
  int64_t features = 0;
  int64_t layers = 0;
  int64_t width = 0;
  int64_t classes = 0;
  int64_t heads = 1;
  GraphActivation activation = GraphActivation::relu;
  bool norm = false;
  bool residual = false;
  double dropout = 0;
  double norm_epsilon = 1e-5;

  int64_t items_per_sample() const { return 1; }
  bool has_projection() const { return projection != InputProjection::none; }
  bool has_pooling() const { return pooling != NodePooling::none; }
  bool gives_classes(int64_t layer) const { return layer + 1 == layers && !has_pooling(); }
  int64_t inputs_of(int64_t layer) const { return layer == 0 && !has_projection() ? features : width; }
  int64_t outputs_of(int64_t layer) const { return gives_classes(layer) ? classes : width; }
  kernels::Activation activation_kind() const;
  // Norm, activation and dropout stand before a convolution, except before one whose input is the features.
  bool is_activated(int64_t layer) const { return layer > 0 || has_projection(); }
  // If nothing else stands between a convolution and the next activation, the activation is the epilogue of that
  // convolution. If op linear has no such epilogue, the next layer starts with the activation.
  bool ends_in_activation(int64_t layer) const {
    return layer + 1 < layers && !norm && !residual && dropout == 0 && kernels::is_epilogue(activation_kind());
  }
  bool starts_with_activation(int64_t layer) const {
    return is_activated(layer) && !(layer > 0 && ends_in_activation(layer - 1));
  }
  bool adds_input(int64_t layer) const { return residual && is_activated(layer) && !gives_classes(layer); }
  // layer_norm and gelu_tanh are one op, unless the norm adds the branch that the layer before left pending.
  bool norm_ends_in_gelu_tanh(int64_t layer) const {
    return norm && activation == GraphActivation::gelu_tanh && !(layer > 0 && adds_input(layer - 1));
  }
  // True for convolutions that treat a node as one of its own neighbors.
  bool wants_self_loops() const {
    return convolution == GraphConvolutionKind::gcn || convolution == GraphConvolutionKind::gat;
  }

  template <class Fields>
  void describe(Fields& fields) {
    fields.require("convolution", convolution,
                   "graph convolution: sage, gcn, gin or gat, as SAGEConv, GCNConv, GINConv and GATConv of PyG");
    fields.add("reduction", reduction, "reduction over the neighbors of a node (sage only): mean or max");
    fields.add("projection", projection,
               "linear layer before the first convolution: none; dense, for dense features; sparse, for features in a "
               "sparse matrix");
    fields.add("pooling", pooling,
               "pooling of the nodes of a graph, if graphs are classified: mean, sum or attention; none: nodes are "
               "classified");
    fields.require("features", features, "number of features of a node in the data", configs::between(1, 1e8));
    fields.require("layers", layers, "number of graph convolutions", configs::between(1, 1000));
    fields.require("width", width, "width of a node's hidden state", configs::between(1, 1e6));
    fields.require("classes", classes, "number of classes", configs::between(2, 1e8));
    fields.add("heads", heads,
               "number of attention heads (gat only); it must divide width; heads are concatenated, but averaged in a "
               "layer that gives the classes (pooling: none)",
               configs::between(1, 1e5));
    fields.add("activation", activation,
               "activation before each convolution of hidden states, and in the MLP of gin: relu, gelu, gelu_tanh "
               "(tanh form of GELU) or silu");
    fields.add("norm", norm, "LayerNorm before each activation");
    fields.add("residual", residual, "residual connection around each convolution from hidden states to hidden states");
    fields.add("dropout", dropout, "dropout probability after each activation; 0: no dropout", configs::kBelowOne);
    fields.add("norm_epsilon", norm_epsilon, "epsilon of the norms, added to the variance", configs::kEpsilon);
  }
};

void check(const GraphNetworkConfig& model, configs::Checks& checks);
// See model_config.h.
double flops_per_item(const GraphNetworkConfig& model, const std::vector<ParameterGroup>& groups);
inline std::optional<ModelAttention> attention_of(const GraphNetworkConfig&) { return std::nullopt; }

}  // namespace strata::modules
