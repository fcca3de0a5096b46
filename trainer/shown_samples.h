// SPDX-License-Identifier: MIT
// What an evaluation shows of its first samples, which are split over ranks: evaluation.samples.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "sharding/communication/communicator.h"
#include "trainer/config/trainer_config.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {

// Returns fp64 [samples, names, items] in host memory: ShowsSamples::shown_values of the first `samples` validation
// samples. `shows` is the same object as `task`. It runs the model once more, in rounds of one micro-batch as
// evaluate() does. Collective; the result is the same on all ranks.
at::Tensor shown_samples(const Task& task, const ShowsSamples& shows, ShardedModel& model,
                         sharding::Communicator& world, const TrainerConfig& config, int64_t samples,
                         const std::function<void()>& round_is_over);

}  // namespace strata::trainer
