// SPDX-License-Identifier: MIT
// The common part of tasks on graphs: a graph network that gives one label per node or graph.
#pragma once

#include <memory>

#include "kernels/runtime/level.h"
#include "modules/graph/graph_network.h"
#include "trainer/data/graphs/graph_data.h"
#include "trainer/tasks/graph_batch.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

// Returns the rows as a graph on the CPU.
modules::WeightedGraph weighted_graph(const SparseRows& rows, int64_t columns);

class GraphTask : public Task {
 public:
  void build_model(const modules::Scope& scope, at::Device device) override;
  void wrap_layers(const modules::WrapLayer& wrap) override { model_->wrap_layers(wrap); }
  std::map<std::string, double> metrics(const std::vector<double>& means) const override;
  std::string data_fingerprint() const override { return fingerprint_; }

 protected:
  // Throws Error (data) if the graph is damaged or does not fit the model.
  GraphTask(const modules::GraphNetworkConfig& model, const GraphData& graph, const TaskSettings& settings);

  // Returns `count` of the items, from `first_sample` on, in an endless random order. Every item occurs once in an
  // epoch.
  Tensor drawn(const Tensor& items, int64_t first_sample, int64_t count) const;

  // Returns the type of dense features: the compute type of the group that reads them.
  at::ScalarType feature_type() const;

  Tensor scores_of(const Tensor& features, std::shared_ptr<const modules::GraphStep> graph,
                   const Tensor& dropout_key) const;
  // See Task::loss and Task::evaluation_sums. The sums are the losses and the correct predictions of validation items.
  // If there are test labels, the correct predictions and the number of test items follow.
  Tensor label_loss(const Tensor& scores, const Tensor& labels, const Tensor& scale) const;
  Tensor label_sums(const Tensor& scores, const Tensor& validation_labels, const Tensor& test_labels) const;

  const TaskSettings settings_;
  const modules::GraphNetworkConfig model_config_;
  std::unique_ptr<modules::GraphNetwork> model_;

 private:
  kernels::Level loss_level_ = {};  // set by build_model
  std::string fingerprint_;
};

}  // namespace strata::trainer
