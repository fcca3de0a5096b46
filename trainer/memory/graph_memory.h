// SPDX-License-Identifier: MIT
// What the tensors of a step of a graph network take, tensor by tensor, in the order of modules::GraphNetwork.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/neighbor_aggregate/reduction.h"
#include "modules/config/graph_network_config.h"
#include "trainer/config/trainer_config.h"
#include "trainer/data/graphs/graph_sizes.h"
#include "trainer/memory/memory_ledger.h"
#include "trainer/memory/memory_tape.h"
#include "trainer/memory/op_memory.h"

namespace strata::trainer {

class GraphMemory {
 public:
  GraphMemory(const TrainerConfig& config, const modules::GraphNetworkConfig& model, const GraphSizes& graph,
              MemoryLedger& ledger);

  // Not what ATen's operators need on GPUs to go through neighbors.
  bool knows_its_levels() const;

  // Forward and backward of a micro-batch. Returns what the forward of each layer leaves.
  std::vector<int64_t> follow();
  // By all layers when the loss begins.
  int64_t kept() const { return kept_; }

  // The graph, features and targets that stay on the device from step to step.
  int64_t standing() const;
  // What a micro-batch brings along.
  int64_t batch() const;

 private:
  using Value = MemoryTape::Value;
  using Gradient = MemoryTape::Gradient;
  using Gradients = MemoryTape::Gradients;
  struct Stream {
    Value residual, branch;  // branch: without memory where nothing is pending
  };

  Value features();
  Value projected(const Value& features);
  Stream layer(int64_t index, const Stream& stream);
  Stream made_again(int64_t index, const Stream& stream);
  Value convolved(int64_t index, const Value& x);
  Value gathered(int64_t index, const Value& x);
  Value product_of(int64_t index, const Value& gathered);
  Value sum_of_products(int64_t index, const Value& x);
  Value attended(int64_t index, const Value& x);
  Value pooled(const Value& x);
  void loss_forward(Value& logits);
  void loss_backward(Value logits);
  int64_t items() const;  // that have labels
  int64_t bytes_of(const MatrixSize& matrix) const;

  // `weight`, `bias`: made in the step; without memory: those of the model, or none.
  struct Product {
    const char* module;  // in its part
    int64_t rows, inputs, outputs;
    bool relu = false, bias = true;
    Value made_weight = {}, made_bias = {};
  };
  Value linear(const Part& part, const Value& x, const Product& product);
  Value aggregate(const Part& part, const Value& x, const MatrixSize& matrix, int64_t width,
                  kernels::Reduction reduction);
  Value attention(const Part& part, const Value& x, const Value& source, const Value& target, const MatrixSize& matrix,
                  int64_t heads, int64_t width, bool copies_scores);
  Value relu(const Part& part, const Value& x, int64_t elements);
  Value dropout(const Part& part, const Value& x, int64_t elements);
  Stream norm(const Part& part, const Stream& stream, int64_t rows, int64_t elements);
  Value sum(const Part& part, const Value& a, const Value& b, int64_t elements);
  Value narrowed(const Part& part, const Value& x, int64_t elements);
  Value targets_of(const Part& part, const Value& x, int64_t layer, int64_t rows, int64_t width);
  Value with_halo(const Part& part, const Value& x, int64_t layer, int64_t width);
  Value made(const Memory& memory);
  Memory make(const Part& part, int64_t elements) { return tape_.make(ops_.tensor(elements, part.bytes)); }
  Memory make_wide(int64_t elements) { return tape_.make(ops_.tensor(elements, 4)); }
  Memory dense(const Part& part, const Gradient& gradient, int64_t elements);
  const Part& part_of(int64_t layer) const { return ops_.layers()[static_cast<size_t>(layer)]; }
  bool takes_features(int64_t layer) const { return !model_.is_activated(layer); }

  const TrainerConfig& config_;
  const modules::GraphNetworkConfig& model_;
  const GraphSizes& graph_;
  MemoryLedger& ledger_;
  OpMemory ops_;
  MemoryTape tape_;
  const bool exchanges_;  // parts of a graph, between ranks
  int64_t kept_ = 0;
};

}  // namespace strata::trainer
