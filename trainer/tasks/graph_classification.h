// SPDX-License-Identifier: MIT
// One label out of several for each of many small graphs.
#pragma once

#include <memory>

#include "modules/graph_network.h"
#include "trainer/data/graph_data.h"
#include "trainer/task.h"

namespace strata::trainer {

// A sample is a graph. Those of a batch are one graph without edges between them.
class GraphClassification : public Task {
 public:
  // Of many graphs with dense features.
  GraphClassification(const TrainerConfig& config, GraphData graphs);

  std::vector<modules::ParameterGroup> parameter_table() const override;
  void build_model(const modules::ParameterLookup& parameter, at::Device device) override;
  void wrap_layers(const WrapLayer& wrap) override { model_->wrap_layers(wrap); }

  MicroBatch training_batch(int64_t first_sample, int64_t count) const override;
  int64_t items_per_sample() const override { return 1; }
  std::string item_name() const override { return "graphs"; }

  int64_t evaluation_samples() const override { return graphs_.validation.size(0); }
  MicroBatch evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const override;
  Tensor evaluation_sums(const MicroBatch& batch) const override;
  std::map<std::string, double> metrics(const std::vector<double>& means) const override;

  Tensor loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const override;
  GraphSizes graph_sizes() const override {
    const MicroBatch batch = training_batch(0, config_.micro_batch);
    return {*batch.graph, batch.inputs.size(0)};
  }
  std::string data_fingerprint() const override { return fingerprint_; }

 private:
  int64_t nodes_in(const Tensor& graphs) const;
  MicroBatch batch_of(const Tensor& graphs, const Tensor& labels, int64_t first_row) const;
  Tensor logits(const MicroBatch& batch, const Tensor& dropout_key) const;

  TrainerConfig config_;
  modules::GraphNetworkConfig model_config_;
  kernels::Level loss_level_;
  GraphData graphs_;
  std::string fingerprint_;
  SparseRows rows_;  // of all graphs, as the convolutions want them
  std::unique_ptr<modules::GraphNetwork> model_;
};

}  // namespace strata::trainer
