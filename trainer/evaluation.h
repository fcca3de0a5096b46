// SPDX-License-Identifier: MIT
// What an evaluation computes of validation samples, which are split over ranks: the mean loss and other metrics of a
// model, and what it shows of the first samples (evaluation.samples).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sharding/communication/communicator.h"
#include "trainer/config/trainer_config.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/task.h"
#include "trainer/tasks/task_powers.h"

namespace strata::trainer {

struct Evaluation {
  std::vector<double> means;  // means over the items of the sums of Task::evaluation_sums; the first one is the loss
  int64_t items = 0;
};

// Evaluates the first `samples` validation samples in rounds of one micro-batch, which has
// TrainerConfig::global_micro_batch() samples. Collective; the result is the same on all ranks. Returns nothing if a
// rank was asked to stop before the end. `round_is_over` is called after every round, because an evaluation may take
// longer than the watchdog waits.
std::optional<Evaluation> evaluate(const Task& task, ShardedModel& model, sharding::Communicator& world,
                                   const TrainerConfig& config, int64_t samples,
                                   const std::function<void()>& round_is_over);

// Returns fp64 [samples, names, items] in host memory: ShowsSamples::shown_values of the first `samples` validation
// samples. `shows` is the same object as `task`. It runs the model once more, in rounds of one micro-batch as
// evaluate() does. Collective; the result is the same on all ranks.
at::Tensor shown_samples(const Task& task, const ShowsSamples& shows, ShardedModel& model,
                         sharding::Communicator& world, const TrainerConfig& config, int64_t samples,
                         const std::function<void()>& round_is_over);

}  // namespace strata::trainer
