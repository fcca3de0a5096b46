// SPDX-License-Identifier: MIT
// The most that tensors of a rank take at once, predicted, by class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "modules/config/parameter_group.h"
#include "trainer/config/trainer_config.h"
#include "trainer/memory/memory_estimate.h"
#include "trainer/trace/trace_step.h"

namespace strata::trainer {

// memory_per_rank, what the task keeps on the device, and what the step takes besides when it takes the most.
std::vector<MemoryClass> peak_memory(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& groups,
                                     const StepTrace& step);

int64_t sum_of(const std::vector<MemoryClass>& classes);

// A line for each class and one for the sum. Without a trace the classes are those of memory_per_rank, and the last
// line says so.
std::string memory_table(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& groups,
                         const std::optional<StepTrace>& step);

}  // namespace strata::trainer
