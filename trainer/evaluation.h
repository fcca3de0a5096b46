// SPDX-License-Identifier: MIT
// The mean loss and other metrics of a model over validation samples, which are split over ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sharding/communication/communicator.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

struct Evaluation {
  std::vector<double> means;  // means over the items of the sums of Task::evaluation_sums; the first one is the loss
  int64_t items = 0;
};

// Evaluates the first `samples` validation samples, `micro_batch` at a time for each group of `group_ranks` neighbors,
// which share samples. Collective; the result is the same on all ranks. Returns nothing if a rank was asked to stop
// before the end. `sign_of_life` is called after every micro-batch, because an evaluation may take longer than the
// watchdog waits.
std::optional<Evaluation> evaluate(const Task& task, ShardedModel& model, sharding::Communicator& world,
                                   int64_t micro_batch, int64_t group_ranks, int64_t samples,
                                   const std::function<void()>& sign_of_life);

}  // namespace strata::trainer
