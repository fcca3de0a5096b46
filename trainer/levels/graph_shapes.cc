// SPDX-License-Identifier: MIT
#include "trainer/levels/graph_shapes.h"

#include "kernels/activation/activation_shape.h"
#include "kernels/cross_entropy/cross_entropy_shape.h"
#include "kernels/dropout/dropout_shape.h"
#include "kernels/layer_norm/layer_norm_shape.h"
#include "kernels/linear/linear_shape.h"
#include "kernels/neighbor_aggregate/neighbor_aggregate_shape.h"
#include "modules/config/graph_products.h"
#include "modules/config/module_name.h"
#include "trainer/config/graph_data.h"

namespace strata::trainer {
namespace {

using kernels::Activation;
using kernels::ActivationShape;
using kernels::CrossEntropyShape;
using kernels::DropoutShape;
using kernels::LayerNormShape;
using kernels::LinearShape;
using kernels::NeighborAggregateShape;
using kernels::NeighborAttentionShape;
using kernels::OpShape;
using kernels::Reduction;

// See modules::GraphNetwork and GraphConvolution.
class GraphShapes {
 public:
  GraphShapes(const modules::GraphNetworkConfig& model, const ShapeSettings& settings, ShapeCollector& shapes)
      : model_(model),
        settings_(settings),
        graph_(settings.graph),
        whole_graph_(!sees_new_graphs(settings.data)),
        shapes_(shapes) {}

  void add_all() {
    add_projection();
    bool adds = false;  // there is a pending branch
    for (int64_t i = 0; i < model_.layers; ++i) {
      add_norm_and_relu(i, adds);
      add_convolution(i);
      adds = model_.adds_input(i);
    }
    if (whole_graph_ && settings_.ranks > 1) add_halo();
    const int64_t nodes = graph_.of_layer(model_.layers - 1).rows;
    if (model_.has_pooling()) add_pooling(nodes);
    const int64_t items = model_.has_pooling() ? graph_.pooling.rows : nodes;
    shapes_.outside(CrossEntropyShape{.rows = items, .classes = model_.classes});
  }

 private:
  void add_projection() {
    if (model_.projection == modules::InputProjection::dense) {
      shapes_.outside(linear(graph_.nodes, model_.features, model_.width));
    } else if (model_.projection == modules::InputProjection::sparse) {
      shapes_.outside(aggregate(graph_.features, model_.width, Reduction::sum));
    }
  }

  void add_norm_and_relu(int64_t layer, bool adds) {
    if (!model_.starts_with_relu(layer)) return;
    const int64_t rows = graph_.inputs_of_layer(layer), width = model_.inputs_of(layer);
    if (model_.norm) {
      shapes_.in_layers(LayerNormShape{.rows = rows, .width = width, .bias = true, .adds = adds}, 1);
    }
    if (model_.dropout > 0) shapes_.in_layers(DropoutShape{.rows = rows, .width = width}, 1);
    shapes_.in_layers(activation(rows, width, Activation::relu), 1);
  }

  void add_convolution(int64_t layer) {
    const MatrixSize matrix = graph_.of_layer(layer);
    const int64_t targets = matrix.rows, inputs = model_.inputs_of(layer), outputs = model_.outputs_of(layer);
    const Activation last = model_.ends_in_relu(layer) ? Activation::relu : Activation::none;
    const bool is_sage = model_.convolution == modules::GraphConvolutionKind::sage;
    const bool is_gin = model_.convolution == modules::GraphConvolutionKind::gin;
    if (model_.convolution == modules::GraphConvolutionKind::gat) {
      add_attention(layer);
      if (last != Activation::none) shapes_.in_layers(activation(targets, outputs, last), 1);
      return;
    }
    const Reduction reduction = modules::reduction_of(model_);
    const bool is_gathered = modules::takes_gathered_features(model_, layer, whole_graph_);
    if (modules::multiplies_first(model_, layer) && !is_gathered) {
      const FloatType type = settings_.precision.compute_of(modules::graph_layer_name(layer));
      const int64_t width = modules::width_in_vectors(outputs, bytes_of(type));
      shapes_.in_layers(linear(graph_.inputs_of_layer(layer), inputs, width, Activation::none, /*bias=*/false), 1);
      shapes_.in_layers(aggregate(matrix, width, reduction), 1);
      if (is_sage) shapes_.in_layers(linear(targets, inputs, width), 1);
      if (last != Activation::none) shapes_.in_layers(activation(targets, outputs, last), 1);
      return;
    }
    if (is_gathered) {
      shapes_.outside(aggregate(matrix, inputs, reduction));
    } else {
      shapes_.in_layers(aggregate(matrix, inputs, reduction), 1);
    }
    if (is_gin) shapes_.in_layers(linear(targets, inputs, model_.width, Activation::relu), 1);
    const int64_t gathered = is_gin ? model_.width : is_sage ? 2 * inputs : inputs;
    shapes_.in_layers(linear(targets, gathered, outputs, last), 1);
  }

  void add_attention(int64_t layer) {
    const MatrixSize matrix = graph_.of_layer(layer);
    const int64_t heads = model_.heads, of_head = modules::outputs_of_head(model_, layer);
    shapes_.in_layers(linear(graph_.inputs_of_layer(layer), model_.inputs_of(layer), heads * of_head), 1);
    shapes_.in_layers(linear(matrix.columns, heads * of_head, 2 * heads), 1);
    shapes_.in_layers(attention(matrix, heads, of_head), 1);
  }

  // Gradients of what other ranks needed come back, about as many as there are nodes that this one needs of them.
  void add_halo() {
    const MatrixSize matrix = graph_.of_layer(0);
    const int64_t halo = matrix.columns - matrix.rows;
    shapes_.outside(aggregate({matrix.rows, halo, halo}, model_.width, Reduction::sum));
  }

  void add_pooling(int64_t nodes) {
    const MatrixSize& matrix = graph_.pooling;
    if (model_.pooling == modules::NodePooling::attention) {
      shapes_.outside(linear(nodes, model_.width, 1));
      shapes_.outside(attention(matrix, /*heads=*/1, model_.width));
    } else {
      const bool is_mean = model_.pooling == modules::NodePooling::mean;
      shapes_.outside(aggregate(matrix, model_.width, is_mean ? Reduction::mean : Reduction::sum));
    }
    shapes_.outside(linear(matrix.rows, model_.width, model_.classes));
  }

  static OpShape linear(int64_t rows, int64_t inputs, int64_t outputs, Activation activation = Activation::none,
                        bool bias = true) {
    return LinearShape{.rows = rows, .inputs = inputs, .outputs = outputs, .activation = activation, .bias = bias};
  }
  static OpShape activation(int64_t rows, int64_t width, Activation kind) {
    return ActivationShape{.rows = rows, .width = width, .kind = kind};
  }
  static OpShape aggregate(const MatrixSize& matrix, int64_t width, Reduction reduction) {
    return NeighborAggregateShape{.targets = matrix.rows,
                                  .width = width,
                                  .edges = matrix.entries,
                                  .sources = matrix.columns,
                                  .reduction = reduction,
                                  .weighted = matrix.weighted};
  }
  static OpShape attention(const MatrixSize& matrix, int64_t heads, int64_t width) {
    return NeighborAttentionShape{.targets = matrix.rows,
                                  .heads = heads,
                                  .head_width = width,
                                  .edges = matrix.entries,
                                  .sources = matrix.columns};
  }

  const modules::GraphNetworkConfig& model_;
  const ShapeSettings& settings_;
  const GraphSizes& graph_;
  const bool whole_graph_;  // one that is there in every step
  ShapeCollector& shapes_;
};

}  // namespace

void add_shapes(const modules::GraphNetworkConfig& model, const ShapeSettings& settings, ShapeCollector& shapes) {
  GraphShapes(model, settings, shapes).add_all();
}

}  // namespace strata::trainer
