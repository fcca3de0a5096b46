// SPDX-License-Identifier: MIT
// Node classification: one label per node of a graph.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/data/graphs/graph_partition.h"
#include "trainer/data/graphs/neighbor_sampler.h"
#include "trainer/tasks/graph_task.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {

// A sample is the whole graph, and each rank computes its part of it; the loss counts the training nodes. With sampled
// neighbors, a sample is one training node, and only evaluations use the whole graph.
class NodeClassification : public GraphTask, public SharesSamples {
 public:
  // `order` decides which rank computes which nodes. fan_outs: number of sampled neighbors per layer; empty: neighbors
  // are not sampled.
  NodeClassification(const modules::GraphNetworkConfig& model, const GraphData& graph, GraphOrder order,
                     const std::vector<int64_t>& fan_outs, const TaskSettings& settings);

  void share_samples(sharding::Communicator& world) override { world_ = &world; }
  void build_model(const modules::Scope& scope, at::Device device) override;

  // Returns an empty request if the graph is on the device already, otherwise the result of the sampler.
  MicroBatch training_batch(int64_t first_sample, int64_t count) const override;
  int64_t items_per_sample() const override { return sampler_ ? 1 : graph_.train.size(0); }
  std::string item_name() const override { return "nodes"; }

  int64_t evaluation_samples() const override { return 1; }
  int64_t evaluation_items(int64_t /*samples*/, const Tensor& /*sums*/) const override {
    return graph_.validation.size(0);
  }
  MicroBatch evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const override;
  Tensor evaluation_sums(const MicroBatch& batch) const override;

  Tensor loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const override;

 private:
  MicroBatch sampled_batch(int64_t first_sample, int64_t count) const;
  Tensor targets_of(const Tensor& split) const;

  GraphOrder order_;
  GraphData graph_;  // in this order
  std::optional<NeighborSampler> sampler_;
  sharding::Communicator* world_ = nullptr;
  GraphPart part_;  // part of this rank
  // The graph of the own nodes, on the device.
  std::shared_ptr<const modules::GraphStep> step_;
  Tensor features_, train_targets_, validation_targets_, test_targets_;  // targets: int64 [own nodes]
  Tensor all_features_;  // dense features of all nodes, if neighbors are sampled
};

}  // namespace strata::trainer
