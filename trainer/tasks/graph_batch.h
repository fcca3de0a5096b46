// SPDX-License-Identifier: MIT
// The content of a micro-batch for tasks on graphs.
#pragma once

#include <memory>

#include "modules/graph/graph_step.h"
#include "trainer/tasks/micro_batch.h"

namespace strata::trainer {

struct GraphBatch {
  Tensor inputs;  // int64 [nodes], numbers in the whole graph, or features [nodes, D]
  Tensor labels;  // int64
  std::shared_ptr<const modules::GraphStep> graph = {};  // graph of this batch alone, with another size each time
};

inline GraphBatch with_each(const GraphBatch& batch, const ReplaceTensor& replaced) {
  const auto& [inputs, labels, graph] = batch;
  GraphBatch result{replaced(inputs), replaced(labels)};
  if (graph) result.graph = std::make_shared<const modules::GraphStep>(modules::with_each(*graph, replaced));
  return result;
}

}  // namespace strata::trainer
