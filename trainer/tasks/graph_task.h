// SPDX-License-Identifier: MIT
// What tasks on graphs share: a graph network, and one label out of several as the target.
#pragma once

#include <memory>

#include "kernels/runtime/level.h"
#include "modules/graph/graph_network.h"
#include "trainer/data/graphs/graph_data.h"
#include "trainer/tasks/graph_batch.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"
#include "trainer/tasks/task_settings.h"

namespace strata::trainer {

// On the CPU.
modules::WeightedGraph weighted_graph(const SparseRows& rows, int64_t columns);

class GraphTask : public Task, public HasGraphSizes {
 public:
  void build_model(const modules::Scope& scope, at::Device device) override;
  void wrap_layers(const WrapLayer& wrap) override { model_->wrap_layers(wrap); }
  std::map<std::string, double> metrics(const std::vector<double>& means) const override;
  std::string data_fingerprint() const override { return fingerprint_; }

 protected:
  // Throws Error (data) for what is wrong with the graph, or does not fit the model.
  GraphTask(const modules::GraphNetworkConfig& model, const GraphData& graph, const TaskSettings& settings);

  // Of a batch with a graph of its own.
  static GraphSizes sizes_of(const GraphBatch& batch);

  // `count` of the items, from `first_sample` on of the endless order in which each is there once in an epoch.
  Tensor drawn(const Tensor& items, int64_t first_sample, int64_t count) const;

  // Of dense features: that of the parameters that they meet first.
  at::ScalarType feature_type() const;

  Tensor scores_of(const Tensor& features, std::shared_ptr<const modules::GraphStep> graph,
                   const Tensor& dropout_key) const;
  // See Task::loss and evaluation_sums: of losses, and of the items whose label is the first guess; where there are
  // labels for the test, also of those items of it, and of all of it.
  Tensor label_loss(const Tensor& scores, const Tensor& labels, const Tensor& scale) const;
  Tensor label_sums(const Tensor& scores, const Tensor& validation_labels, const Tensor& test_labels) const;

  const TaskSettings settings_;
  const modules::GraphNetworkConfig model_config_;
  std::unique_ptr<modules::GraphNetwork> model_;

 private:
  kernels::Level loss_level_ = {};  // from build_model on
  std::string fingerprint_;
};

}  // namespace strata::trainer
