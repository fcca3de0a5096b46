// SPDX-License-Identifier: MIT
// The shapes at which a graph network calls each op.
#pragma once

#include "trainer/levels/shape_collector.h"

namespace strata::trainer {

// What shapes depend on besides the model.
struct ShapeSettings {
  int64_t micro_batch, ranks;
  bool head_and_loss_are_one;
  const DataConfig& data;
  const PrecisionConfig& precision;
  const GraphSizes& graph;
};

void add_shapes(const modules::GraphNetworkConfig& model, const ShapeSettings& settings, ShapeCollector& shapes);

}  // namespace strata::trainer
