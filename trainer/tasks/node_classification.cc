// SPDX-License-Identifier: MIT
#include "trainer/tasks/node_classification.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "base/permutation.h"
#include "trainer/data/graphs/convolution_matrix.h"
#include "trainer/data/ignored_label.h"
#include "trainer/tasks/halo_exchange.h"

namespace strata::trainer {
namespace {

constexpr uint64_t kNeighbors = 1;  // the random stream for neighbors; the sample order has another one
// Dropout masks depend on rows. Different micro-batches of a step get disjoint ranges of rows.
constexpr int64_t kRowsOfSample = int64_t{1} << 24;

// The request for the whole graph, which is on the device already.
MicroBatch whole_graph() { return GraphBatch{at::zeros({1}, at::kLong), at::zeros({1}, at::kLong)}; }

}  // namespace

NodeClassification::NodeClassification(const modules::GraphNetworkConfig& model, const GraphData& graph,
                                       GraphOrder order, const std::vector<int64_t>& fan_outs,
                                       const TaskSettings& settings)
    : GraphTask(model, graph, settings), order_(std::move(order)), graph_(reordered(graph, order_)) {
  if (fan_outs.empty()) return;
  const bool sums = model_config_.convolution == modules::GraphConvolutionKind::gcn ||
                    model_config_.convolution == modules::GraphConvolutionKind::gin;
  sampler_.emplace(convolution_matrix(model_config_, graph_),
                   NeighborSampler::Rule{
                       .fan_outs = fan_outs, .has_self_loops = model_config_.wants_self_loops(), .scales_sums = sums});
}

void NodeClassification::build_model(const modules::Scope& scope, at::Device device) {
  GraphTask::build_model(scope, device);
  part_ = part_of(convolution_matrix(model_config_, graph_), ranges_of_ranks(order_, world_->size()), world_->rank());
  auto step = std::make_shared<modules::GraphStep>();
  step->first_row = part_.begin;
  step->layers.push_back(weighted_graph(part_.rows, part_.nodes() + part_.halo.size(0)).to(device));
  if (world_->size() > 1) {
    step->with_halo = HaloExchange(part_, *world_, scope.level("neighbor_aggregate"));
  }
  if (graph_.is_sparse()) {
    step->features =
        weighted_graph(rows_between(graph_.sparse_features, part_.begin, part_.end), graph_.features).to(device);
  } else {
    Tensor features = graph_.dense_features.slice(0, part_.begin, part_.end);
    // Input features do not change, so the halo's features are stored here and not exchanged in each step.
    if (!model_config_.has_projection()) {
      features = at::cat({features, graph_.dense_features.index_select(0, part_.halo)});
    }
    const at::ScalarType type = feature_type();
    features_ = features.to(device, type);
    if (sampler_) all_features_ = graph_.dense_features.to(device, type);
  }
  step->aggregated_features = model_->aggregated(features_, *step);
  step_ = std::move(step);
  train_targets_ = targets_of(graph_.train).to(device);
  validation_targets_ = targets_of(graph_.validation).to(device);
  if (graph_.test.defined()) test_targets_ = targets_of(graph_.test).to(device);
}

MicroBatch NodeClassification::training_batch(int64_t first_sample, int64_t count) const {
  return sampler_ ? sampled_batch(first_sample, count) : whole_graph();
}

// Every training node occurs once in an epoch, in a random order per epoch.
MicroBatch NodeClassification::sampled_batch(int64_t first_sample, int64_t count) const {
  const Tensor seeds = drawn(graph_.train, first_sample, count);
  const int64_t step = first_sample / settings_.batch;
  const SampledNeighborhood part =
      sampler_->sample(seeds, mix(mix(settings_.seed, kNeighbors), static_cast<uint64_t>(step)));

  auto graph = std::make_shared<modules::GraphStep>();
  for (const SampledLayer& layer : part.layers) graph->layers.push_back(weighted_graph(layer.rows, layer.sources));
  if (graph_.is_sparse()) {
    graph->features = weighted_graph(rows_of(graph_.sparse_features, part.nodes), graph_.features);
  }
  const int64_t first_of_step = first_sample % settings_.batch;
  graph->first_row = first_of_step * kRowsOfSample;
  return {GraphBatch{part.nodes, graph_.labels.index_select(0, seeds), std::move(graph)}, first_of_step};
}

MicroBatch NodeClassification::evaluation_batch(int64_t /*first_sample*/, int64_t /*count*/, int64_t /*end*/) const {
  return whole_graph();
}

Tensor NodeClassification::evaluation_sums(const MicroBatch& /*batch*/) const {
  return label_sums(scores_of(features_, step_, /*dropout_key=*/{}), validation_targets_, test_targets_);
}

Tensor NodeClassification::loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const {
  const auto& [nodes, labels, graph] = batch.as<GraphBatch>();
  if (!graph) return label_loss(scores_of(features_, step_, dropout_key), train_targets_, scale);
  const Tensor features = all_features_.defined() ? all_features_.index_select(0, nodes) : Tensor();
  return label_loss(scores_of(features, graph, dropout_key), labels, scale);
}

// Returns the labels of this rank's nodes that are in `split`. All other nodes are ignored.
Tensor NodeClassification::targets_of(const Tensor& split) const {
  const Tensor targets = at::full({graph_.nodes}, kIgnoredLabel, at::kLong);
  targets.index_copy_(0, split, graph_.labels.index_select(0, split));
  return targets.slice(0, part_.begin, part_.end).clone();
}

}  // namespace strata::trainer
