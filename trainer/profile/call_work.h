// SPDX-License-Identifier: MIT
// Computes the least bytes and FLOPs of the calls of each op of a configuration.
#pragma once

#include "trainer/config/trainer_config.h"
#include "trainer/data/graphs/graph_sizes.h"
#include "trainer/profile/summary.h"

namespace strata::trainer::profile {

// `graph` is explained at used_shapes.
WorkOfCalls work_of_calls(const TrainerConfig& config, const GraphSizes& graph);

}  // namespace strata::trainer::profile
