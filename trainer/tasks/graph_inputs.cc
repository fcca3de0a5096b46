// SPDX-License-Identifier: MIT
#include "trainer/tasks/graph_inputs.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <utility>

#include "configs/errors.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "trainer/data/permutation.h"

namespace strata::trainer {

void check_features(const GraphData& graph, const modules::GraphNetworkConfig& model) {
  if (graph.features != model.features) {
    throw Error(ExitCode::data, graph.name + ": nodes have " + std::to_string(graph.features) +
                                    " features, and model.features asks for " + std::to_string(model.features));
  }
  if (graph.is_sparse() != (model.projection == modules::InputProjection::sparse)) {
    throw Error(ExitCode::data, graph.name + ": features are " + (graph.is_sparse() ? "sparse" : "dense") +
                                    (graph.is_sparse() ? ", which only model.projection: sparse reads"
                                                       : ", and model.projection is sparse; expected none or dense"));
  }
}

modules::WeightedGraph weighted_graph(const SparseRows& rows, int64_t columns) {
  return {kernels::NeighborGraph::from_csr(rows.offsets, rows.columns, columns), rows.values};
}

Tensor drawn(const Tensor& items, uint64_t seed, int64_t first_sample, int64_t count) {
  const int64_t in_epoch = items.size(0);
  const Tensor places = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = first_sample + i;
    const uint64_t key = mix(seed, static_cast<uint64_t>(sample / in_epoch));
    places.mutable_data_ptr<int64_t>()[i] = permuted(key, sample % in_epoch, in_epoch);
  }
  return items.index_select(0, places);
}

modules::StepContext context_of(std::shared_ptr<const modules::GraphStep> graph, const Tensor& dropout_key) {
  modules::StepContext context;
  context.dropout_key = dropout_key;
  context.first_row = graph->first_row;
  context.graph = std::move(graph);
  return context;
}

Tensor label_loss(const Tensor& scores, const Tensor& labels, const Tensor& scale, kernels::Level level) {
  return kernels::cross_entropy(scores, labels, scale, kIgnoredLabel, /*label_smoothing=*/0, level);
}

Tensor label_sums(const Tensor& scores, const Tensor& labels, kernels::Level level) {
  const Tensor right = at::argmax(scores, 1).eq(labels);
  const Tensor one = at::ones({}, scores.options().dtype(at::kFloat));
  // Last: a level may make the gradient in the memory of the scores.
  const Tensor loss = label_loss(scores, labels, one, level);
  return at::stack({loss.to(at::kDouble), right.sum().to(at::kDouble)});
}

std::map<std::string, double> label_metrics(const std::vector<double>& means) {
  return {{"validation_accuracy", means.at(1)}};
}

}  // namespace strata::trainer
