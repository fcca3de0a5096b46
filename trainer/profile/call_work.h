// SPDX-License-Identifier: MIT
// What the calls of each op of a configuration must read, write and compute at least.
#pragma once

#include "trainer/config/trainer_config.h"
#include "trainer/data/graphs/graph_sizes.h"
#include "trainer/profile/summary.h"

namespace strata::trainer::profile {

// `graph`: see used_shapes.
WorkOfCalls work_of_calls(const TrainerConfig& config, const GraphSizes& graph);

}  // namespace strata::trainer::profile
