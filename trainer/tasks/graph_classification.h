// SPDX-License-Identifier: MIT
// Classification of many small graphs: one label per graph.
#pragma once

#include <algorithm>

#include "trainer/tasks/graph_task.h"

namespace strata::trainer {

// A sample is a graph. The graphs of a batch form one graph without edges between them.
class GraphClassification : public GraphTask {
 public:
  // `graphs` holds many graphs with dense features.
  GraphClassification(const modules::GraphNetworkConfig& model, GraphData graphs, const TaskSettings& settings);

  MicroBatch training_batch(int64_t first_sample, int64_t count) const override;
  int64_t items_per_sample() const override { return 1; }
  std::string item_name() const override { return "graphs"; }

  // The evaluated graphs are the graphs for validation, then the test set. The test set is evaluated as a whole or
  // not at all.
  int64_t evaluation_samples() const override { return evaluated_.size(0); }
  int64_t evaluation_items(int64_t samples, const Tensor& /*sums*/) const override {
    return std::min(samples, graphs_.validation.size(0));
  }
  MicroBatch evaluation_batch(int64_t first_sample, int64_t count, int64_t end) const override;
  Tensor evaluation_sums(const MicroBatch& batch) const override;

  Tensor loss(const MicroBatch& batch, const Tensor& scale, const Tensor& dropout_key) const override;

 private:
  int64_t nodes_in(const Tensor& graphs) const;
  GraphBatch batch_of(const Tensor& graphs, const Tensor& labels, int64_t first_row) const;
  Tensor logits(const GraphBatch& batch, const Tensor& dropout_key) const;

  GraphData graphs_;
  SparseRows rows_;   // rows of all graphs, in the form that the convolutions need
  Tensor evaluated_;  // int64, numbers of graphs
};

}  // namespace strata::trainer
