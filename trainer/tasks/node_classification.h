// SPDX-License-Identifier: MIT
// One label out of several for each node of a graph.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/data/graphs/graph_partition.h"
#include "trainer/data/graphs/neighbor_sampler.h"
#include "trainer/tasks/graph_task.h"

namespace strata::trainer {

// A sample is the whole graph, of which each rank has its part; what is learnt from are the labels of the nodes for
// training. With sampled neighbors a sample is such a node, and only evaluations see the whole graph.
class NodeClassification : public GraphTask, public SharesSamples {
 public:
  // The order says which ranks compute what. fan_outs: how many neighbors are sampled; empty: none are.
  NodeClassification(const modules::GraphNetworkConfig& model, const GraphData& graph, GraphOrder order,
                     const std::vector<int64_t>& fan_outs, const TaskSettings& settings);

  void share_samples(sharding::Communicator& world) override { world_ = &world; }
  void build_model(const modules::Scope& scope, at::Device device) override;

  // Nothing, where the graph is on the device already; or what the sampler found.
  MicroBatch training_batch(int64_t first_sample, int64_t count) const override;
  int64_t items_per_sample() const override { return sampler_ ? 1 : graph_.train.size(0); }
  std::string item_name() const override { return "nodes"; }

  int64_t evaluation_samples() const override { return 1; }
  int64_t evaluation_items(int64_t /*samples*/) const override { return graph_.validation.size(0); }
  MicroBatch evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const override;
  Tensor evaluation_sums(const MicroBatch& batch) const override;

  Tensor loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const override;
  GraphSizes graph_sizes() const override;

 private:
  GraphPart part_of_rank(int64_t rank, int64_t ranks) const;
  MicroBatch sampled_batch(int64_t first_sample, int64_t count) const;
  Tensor targets_of(const Tensor& split) const;

  GraphOrder order_;
  GraphData graph_;  // in this order
  std::optional<NeighborSampler> sampler_;
  sharding::Communicator* world_ = nullptr;
  GraphPart part_;  // of this rank
  // On the device, of the own nodes.
  std::shared_ptr<const modules::GraphStep> step_;
  Tensor features_, train_targets_, validation_targets_, test_targets_;  // targets: int64 [own nodes]
  Tensor all_features_;  // dense ones of all nodes, where neighbors are sampled
};

}  // namespace strata::trainer
