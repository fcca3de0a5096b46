// SPDX-License-Identifier: MIT
// The most that tensors of a rank take at once, predicted, by class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/parameter_table.h"
#include "trainer/config/trainer_config.h"
#include "trainer/data/graphs/graph_sizes.h"
#include "trainer/memory/memory_estimate.h"

namespace strata::trainer {

// Whether it is predicted what a step takes besides parameters and optimizer: see step_memory.
bool predicts_step_memory(const TrainerConfig& config, const GraphSizes& graph = {});

// memory_per_rank, and the graph that stays on the device, where its size is known.
std::vector<MemoryClass> standing_memory(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table,
                                         const GraphSizes& graph);

// That, and where it is predicted what a step takes besides when it takes the most.
std::vector<MemoryClass> peak_memory(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table,
                                     const GraphSizes& graph = {});

int64_t sum_of(const std::vector<MemoryClass>& classes);

// A line for each class of peak_memory and one for the sum, which says what is not in it.
std::string memory_table(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table);

}  // namespace strata::trainer
