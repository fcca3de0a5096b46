// SPDX-License-Identifier: MIT
#include "trainer/tasks/node_classification.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <utility>

#include "configs/errors.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "modules/kernel_selection.h"
#include "trainer/data/graph_rows.h"
#include "trainer/data/permutation.h"
#include "trainer/halo_exchange.h"

namespace strata::trainer {
namespace {

constexpr int64_t kIgnored = -100;  // a label that counts nothing
constexpr uint64_t kNeighbors = 1;  // a stream of random choices beside that of the order
// Dropout's masks are drawn by the rows of a micro-batch: those of different ones shall not meet.
constexpr int64_t kRowsOfSample = int64_t{1} << 24;

// What the whole graph is asked for by: it is on the device already.
MicroBatch whole_graph() { return {at::zeros({1}, at::kLong), at::zeros({1}, at::kLong)}; }

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
  if (config.shares_samples()) return;
  const bool sums = model_config_.convolution == modules::GraphConvolutionKind::gcn ||
                    model_config_.convolution == modules::GraphConvolutionKind::gin;
  sampler_.emplace(
      rows_for(model_config_, graph_),
      NeighborSampler::Rule{
          .fan_outs = config.data.fan_outs(), .has_self_loops = model_config_.wants_self_loops(), .scales_sums = sums});
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
    const at::ScalarType type = config_.precision.compute == FloatType::bfloat16 ? at::kBFloat16 : at::kFloat;
    features_ = features.to(device, type);
    if (sampler_) all_features_ = graph_.dense_features.to(device, type);
  }
  step_ = std::move(step);
  train_targets_ = targets_of(graph_.train).to(device);
  validation_targets_ = targets_of(graph_.validation).to(device);
}

MicroBatch NodeClassification::training_batch(int64_t first_sample, int64_t count) const {
  return sampler_ ? sampled_batch(first_sample, count) : whole_graph();
}

// Every training node once in an epoch, in an order of its own.
MicroBatch NodeClassification::sampled_batch(int64_t first_sample, int64_t count) const {
  const auto seed = static_cast<uint64_t>(config_.run.seed);
  const int64_t nodes = graph_.train.size(0);
  const Tensor place = at::empty({count}, at::kLong);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t sample = first_sample + i;
    const uint64_t key = mix(seed, static_cast<uint64_t>(sample / nodes));
    place.mutable_data_ptr<int64_t>()[i] = permuted(key, sample % nodes, nodes);
  }
  const Tensor seeds = graph_.train.index_select(0, place);
  const int64_t step = first_sample / config_.batch;
  const SampledNeighborhood part = sampler_->sample(seeds, mix(mix(seed, kNeighbors), static_cast<uint64_t>(step)));

  auto graph = std::make_shared<modules::GraphStep>();
  for (const SampledLayer& layer : part.layers) graph->layers.push_back(on_device(layer.rows, layer.sources, at::kCPU));
  if (graph_.is_sparse()) {
    graph->features = on_device(rows_of(graph_.sparse_features, part.nodes), graph_.features, at::kCPU);
  }
  return {part.nodes, graph_.labels.index_select(0, seeds), first_sample % config_.batch, /*share=*/{}, graph};
}

MicroBatch NodeClassification::evaluation_batch(int64_t /*first_sample*/, int64_t /*count*/, int64_t /*end*/) const {
  return whole_graph();
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

Tensor NodeClassification::loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const {
  if (batch.graph) {
    modules::StepContext context;
    context.dropout_key = dropout_key;
    context.first_row = batch.first_sample * kRowsOfSample;
    context.graph = batch.graph;
    const Tensor features = all_features_.defined() ? all_features_.index_select(0, batch.inputs) : Tensor();
    return kernels::cross_entropy((*model_)(features, context), batch.targets, scale, kIgnored, /*label_smoothing=*/0,
                                  loss_level_);
  }
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
