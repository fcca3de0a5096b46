// SPDX-License-Identifier: MIT
#include "trainer/tasks/graph_classification.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <utility>
#include <vector>

#include "trainer/data/graphs/convolution_matrix.h"
#include "trainer/data/graphs/graph_partition.h"
#include "trainer/data/ignored_label.h"

namespace strata::trainer {

GraphClassification::GraphClassification(const modules::GraphNetworkConfig& model, GraphData graphs,
                                         const TaskSettings& settings)
    : GraphTask(model, graphs, settings),
      graphs_(std::move(graphs)),
      rows_(convolution_matrix(model_config_, graphs_)),
      evaluated_(graphs_.test.defined() ? at::cat({graphs_.validation, graphs_.test}) : graphs_.validation) {}

// The rows of a step are the nodes of its graphs, one graph after another. So dropout masks do not depend on how graphs
// are split over ranks and micro-batches.
MicroBatch GraphClassification::training_batch(int64_t first_sample, int64_t count) const {
  const int64_t step_offset = first_sample % settings_.batch;
  const Tensor earlier_graphs = drawn(graphs_.train, first_sample - step_offset, step_offset);
  const Tensor graphs = drawn(graphs_.train, first_sample, count);
  return {batch_of(graphs, graphs_.labels.index_select(0, graphs), nodes_in(earlier_graphs)), step_offset};
}

MicroBatch GraphClassification::evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const {
  const int64_t validated = graphs_.validation.size(0);
  if (end < evaluated_.size(0)) end = std::min(end, validated);
  const int64_t present = std::clamp<int64_t>(end - first_sample, 0, count);
  // Layers may have collectives, so a rank without graphs computes one graph that does not count.
  const int64_t first = present > 0 ? first_sample : 0;
  const Tensor graphs = evaluated_.slice(0, first, first + std::max<int64_t>(present, 1));
  const Tensor labels = at::full({2, graphs.size(0)}, kIgnoredLabel, at::kLong);
  const int64_t validation_count = std::clamp<int64_t>(validated - first, 0, present);
  const Tensor known = graphs_.labels.index_select(0, graphs);
  labels[0].slice(0, 0, validation_count).copy_(known.slice(0, 0, validation_count));
  labels[1].slice(0, validation_count, present).copy_(known.slice(0, validation_count, present));
  return batch_of(graphs, labels, /*first_row=*/0);
}

int64_t GraphClassification::nodes_in(const Tensor& graphs) const {
  const int64_t* first = integers(graphs_.first_nodes);
  int64_t nodes = 0;
  for (int64_t i = 0; i < graphs.numel(); ++i) {
    const int64_t graph = integers(graphs)[i];
    nodes += first[graph + 1] - first[graph];
  }
  return nodes;
}

GraphBatch GraphClassification::batch_of(const Tensor& graphs, const Tensor& labels, int64_t first_row) const {
  const int64_t* first = integers(graphs_.first_nodes);
  const int64_t* offset = integers(rows_.offsets);
  std::vector<Tensor> nodes, columns;
  const Tensor begins = at::empty({graphs.numel() + 1}, at::kLong);
  int64_t* begin = begins.mutable_data_ptr<int64_t>();
  begin[0] = 0;
  for (int64_t i = 0; i < graphs.numel(); ++i) {
    const int64_t graph = integers(graphs)[i], from = first[graph], to = first[graph + 1];
    nodes.push_back(at::arange(from, to, at::kLong));
    columns.push_back(rows_.columns.slice(0, offset[from], offset[to]) + (begin[i] - from));
    begin[i + 1] = begin[i] + to - from;
  }
  const Tensor all_nodes = at::cat(nodes);
  SparseRows rows = rows_of(rows_, all_nodes);
  rows.columns = at::cat(columns);

  auto step = std::make_shared<modules::GraphStep>();
  step->layers.push_back(weighted_graph(rows, all_nodes.numel()));
  step->pooling = weighted_graph({begins, at::arange(all_nodes.numel(), at::kLong), {}}, all_nodes.numel());
  step->first_row = first_row;
  return {graphs_.dense_features.index_select(0, all_nodes), labels, std::move(step)};
}

Tensor GraphClassification::logits(const GraphBatch& batch, const Tensor& dropout_key) const {
  return scores_of(batch.inputs.to(feature_type()), batch.graph, dropout_key);
}

Tensor GraphClassification::evaluation_sums(const MicroBatch& batch) const {
  const GraphBatch& graphs = batch.as<GraphBatch>();
  return label_sums(logits(graphs, /*dropout_key=*/{}), graphs.labels[0], graphs.labels[1]);
}

Tensor GraphClassification::loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const {
  const GraphBatch& graphs = batch.as<GraphBatch>();
  return label_loss(logits(graphs, dropout_key), graphs.labels, scale);
}

}  // namespace strata::trainer
