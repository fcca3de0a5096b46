// SPDX-License-Identifier: MIT
// The shapes at which a graph network calls each op.
#pragma once

#include "trainer/levels/shape_collector.h"

namespace strata::trainer {

void add_shapes(const modules::GraphNetworkConfig& model, const TrainerConfig& config, const GraphSizes& graph,
                ShapeCollector& shapes);

}  // namespace strata::trainer
