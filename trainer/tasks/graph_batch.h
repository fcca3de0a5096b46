// SPDX-License-Identifier: MIT
// What tasks on graphs put into a micro-batch.
#pragma once

#include <memory>

#include "modules/graph/graph_step.h"
#include "trainer/tasks/micro_batch.h"

namespace strata::trainer {

struct GraphBatch {
  Tensor inputs;  // int64 [nodes] of the whole graph, or their features [nodes, D]
  Tensor labels;  // int64
  std::shared_ptr<const modules::GraphStep> graph = {};  // of this batch alone, in another size each time
};

inline GraphBatch with_each(const GraphBatch& batch, const ReplaceTensor& replaced) {
  const auto& [inputs, labels, graph] = batch;
  GraphBatch result{replaced(inputs), replaced(labels)};
  if (graph) result.graph = std::make_shared<const modules::GraphStep>(modules::with_each(*graph, replaced));
  return result;
}

}  // namespace strata::trainer
