// SPDX-License-Identifier: MIT
// The samples of a step that a rank reads.
#pragma once

#include <cstdint>
#include <vector>

#include "trainer/config/trainer_config.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

// Returns the micro-batches of `step` of this rank, on the host. Steps count from 1.
std::vector<MicroBatch> read_batches(const Task& task, const TrainerConfig& config, int rank, int64_t step);

}  // namespace strata::trainer
