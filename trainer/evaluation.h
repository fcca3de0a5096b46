// SPDX-License-Identifier: MIT
// The mean loss and other metrics of a model over validation samples, which are split over ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sharding/communication/communicator.h"
#include "trainer/config/trainer_config.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/task.h"

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

}  // namespace strata::trainer
