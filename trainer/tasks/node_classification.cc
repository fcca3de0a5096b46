// SPDX-License-Identifier: MIT
#include "trainer/tasks/node_classification.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "configs/errors.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "modules/kernel_selection.h"
#include "trainer/data/graph_rows.h"
#include "trainer/halo_exchange.h"

namespace strata::trainer {
namespace {

constexpr int64_t kIgnored = -100;  // a label that counts nothing

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

modules::WeightedGraph on_device(const SparseRows& rows, int64_t columns, at::Device device) {
  return {kernels::NeighborGraph::from_csr(rows.offsets, rows.columns, columns).to(device),
          rows.values.defined() ? rows.values.to(device) : Tensor()};
}

}  // namespace

NodeClassification::NodeClassification(const TrainerConfig& config, const GraphData& graph, GraphOrder order)
    : config_(config),
      model_config_(std::get<modules::GraphNetworkConfig>(config.model.type)),
      loss_level_(modules::kernels_for_root(config.kernels).cross_entropy),
      order_(std::move(order)) {
  check_features(graph, model_config_);
  check(graph, model_config_.classes);
  fingerprint_ = fingerprint_of(graph);
  graph_ = reordered(graph, order_);
}

std::vector<modules::ParameterGroup> NodeClassification::parameter_table() const {
  return modules::parameter_table(model_config_);
}

void NodeClassification::build_model(const modules::ParameterLookup& parameter, at::Device device) {
  model_ = std::make_unique<modules::GraphNetwork>(model_config_, config_.kernels, parameter);
  part_ = part_of(rows_for(model_config_, graph_), ranges_of_ranks(order_, world_->size()), world_->rank());
  auto step = std::make_shared<modules::GraphStep>();
  step->layers.push_back(on_device(part_.rows, part_.nodes() + part_.halo.size(0), device));
  if (world_->size() > 1) {
    step->with_halo = HaloExchange(part_, *world_, modules::kernels_for_root(config_.kernels).neighbor_aggregate);
  }
  if (graph_.is_sparse()) {
    step->features = on_device(rows_between(graph_.sparse_features, part_.begin, part_.end), graph_.features, device);
  } else {
    Tensor features = graph_.dense_features.slice(0, part_.begin, part_.end);
    // What is not learnt is not exchanged.
    if (!model_config_.has_projection()) {
      features = at::cat({features, graph_.dense_features.index_select(0, part_.halo)});
    }
    const bool rounded = config_.precision.compute == FloatType::bfloat16;
    features_ = features.to(device, rounded ? at::kBFloat16 : at::kFloat);
  }
  step->gathered_features = model_->gathered(features_, *step);
  step_ = std::move(step);
  train_targets_ = targets_of(graph_.train).to(device);
  validation_targets_ = targets_of(graph_.validation).to(device);
}

MicroBatch NodeClassification::training_batch(int64_t /*first_sample*/, int64_t /*count*/) const {
  return {at::zeros({1}, at::kLong), at::zeros({1}, at::kLong)};
}

MicroBatch NodeClassification::evaluation_batch(int64_t first_sample, int64_t count, int64_t /*end*/) const {
  return training_batch(first_sample, count);
}

Tensor NodeClassification::evaluation_sums(const MicroBatch& /*batch*/) const {
  const Tensor scores = logits(/*dropout_key=*/{});
  const Tensor right = at::argmax(scores, 1).eq(validation_targets_);
  const Tensor one = at::ones({}, scores.options().dtype(at::kFloat));
  // Last: a level may make the gradient in the memory of the scores.
  const Tensor loss =
      kernels::cross_entropy(scores, validation_targets_, one, kIgnored, /*label_smoothing=*/0, loss_level_);
  return at::stack({loss.to(at::kDouble), right.sum().to(at::kDouble)});
}

std::map<std::string, double> NodeClassification::metrics(const std::vector<double>& means) const {
  return {{"validation_accuracy", means.at(1)}};
}

Tensor NodeClassification::loss(const MicroBatch& /*batch*/, const Tensor& scale, const Tensor& dropout_key) const {
  return kernels::cross_entropy(logits(dropout_key), train_targets_, scale, kIgnored, /*label_smoothing=*/0,
                                loss_level_);
}

Tensor NodeClassification::logits(const Tensor& dropout_key) const {
  modules::StepContext context;
  context.dropout_key = dropout_key;
  context.first_row = part_.begin;
  context.graph = step_;
  return (*model_)(features_, context);
}

// The labels of those of these nodes that are this rank's; all others are ignored.
Tensor NodeClassification::targets_of(const Tensor& split) const {
  const Tensor all = at::full({graph_.nodes}, kIgnored, at::kLong);
  all.index_copy_(0, split, graph_.labels.index_select(0, split));
  return all.slice(0, part_.begin, part_.end).clone();
}

}  // namespace strata::trainer
