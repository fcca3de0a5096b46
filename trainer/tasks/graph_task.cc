// SPDX-License-Identifier: MIT
#include "trainer/tasks/graph_task.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>

#include <utility>

#include "base/errors.h"
#include "base/permutation.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "modules/config/module_name.h"
#include "trainer/config/scalar_type.h"
#include "trainer/data/ignored_label.h"

namespace strata::trainer {
namespace {

void check_features(const GraphData& graph, const modules::GraphNetworkConfig& model) {
  const bool is_text = !graph.features_file.empty();
  const std::string& from = is_text ? graph.features_file : graph.name;
  if (graph.features != model.features) {
    throw Error(ExitCode::data, from + ": nodes have " + std::to_string(graph.features) +
                                    " features, and model.features asks for " + std::to_string(model.features));
  }
  if (graph.is_sparse() != (model.projection == modules::InputProjection::sparse)) {
    throw Error(ExitCode::data, from + ": features are " + (graph.is_sparse() ? "sparse" : "dense") +
                                    (graph.is_sparse() ? ", which only model.projection: sparse reads"
                                                       : ", and model.projection is sparse; expected none or dense") +
                                    (is_text ? " (those of OGB's data sets are always dense)" : ""));
  }
}

}  // namespace

modules::WeightedGraph weighted_graph(const SparseRows& rows, int64_t columns) {
  return {kernels::NeighborGraph::from_csr(rows.offsets, rows.columns, columns), rows.values};
}

GraphTask::GraphTask(const modules::GraphNetworkConfig& model, const GraphData& graph, const TaskSettings& settings)
    : settings_(settings), model_config_(model) {
  check_features(graph, model_config_);
  check_graph(graph, model_config_.classes);
  fingerprint_ = fingerprint_of(graph);
}

void GraphTask::build_model(const modules::Scope& scope, at::Device /*device*/) {
  model_ =
      std::make_unique<modules::GraphNetwork>(model_config_, scope, settings_.placement.features_are_aggregated_once);
  loss_level_ = scope.level("cross_entropy");
}

Tensor GraphTask::drawn(const Tensor& items, int64_t first_sample, int64_t count) const {
  const int64_t epoch_samples = items.size(0);
  const Tensor places = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = first_sample + i;
    const uint64_t key = mix(settings_.seed, static_cast<uint64_t>(sample / epoch_samples));
    places.mutable_data_ptr<int64_t>()[i] = permuted(key, sample % epoch_samples, epoch_samples);
  }
  return items.index_select(0, places);
}

at::ScalarType GraphTask::feature_type() const {
  return scalar_type(
      settings_.precision.compute_of(model_config_.has_projection() ? "root" : modules::graph_layer_name(0)));
}

Tensor GraphTask::scores_of(const Tensor& features, std::shared_ptr<const modules::GraphStep> graph,
                            const Tensor& dropout_key) const {
  modules::StepContext context;
  context.dropout_key = dropout_key;
  context.first_row = graph->first_row;
  context.put(std::move(graph));
  return (*model_)(features, context);
}

Tensor GraphTask::label_loss(const Tensor& scores, const Tensor& labels, const Tensor& scale) const {
  return kernels::cross_entropy(scores, labels, scale, kIgnoredLabel, /*label_smoothing=*/0, loss_level_);
}

Tensor GraphTask::label_sums(const Tensor& scores, const Tensor& validation_labels, const Tensor& test_labels) const {
  const Tensor guess = at::argmax(scores, 1), one = at::ones({}, scores.options().dtype(at::kFloat));
  // The loss comes after the argmax, because a level may write the gradient into the memory of the scores.
  std::vector<Tensor> sums = {label_loss(scores, validation_labels, one), guess.eq(validation_labels).sum()};
  if (test_labels.defined()) {
    sums.push_back(guess.eq(test_labels).sum());
    sums.push_back(test_labels.ne(kIgnoredLabel).sum());
  }
  for (Tensor& sum : sums) sum = sum.to(at::kDouble);
  return at::stack(sums);
}

std::map<std::string, double> GraphTask::metrics(const std::vector<double>& means) const {
  std::map<std::string, double> result = {{"validation_accuracy", means.at(1)}};
  if (means.size() > 2 && means[3] > 0) result["test_accuracy"] = means[2] / means[3];
  return result;
}

}  // namespace strata::trainer
