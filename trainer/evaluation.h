// SPDX-License-Identifier: MIT
// The mean loss and other means of a model over validation samples, shared between ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sharding/communication/communicator.h"
#include "trainer/model/sharded_model.h"
#include "trainer/tasks/task.h"

namespace strata::trainer {

struct Evaluation {
  std::vector<double> means;  // over the items, of what Task::evaluation_sums sums: first the loss
  int64_t items = 0;
};

// Over the first `samples` validation samples, `micro_batch` at a time on each rank. Collective; the same on all ranks.
// `sign_of_life` is called after every micro-batch: all of them may take longer than a rank may be silent.
Evaluation evaluate(const Task& task, ShardedModel& model, sharding::Communicator& world, int64_t micro_batch,
                    int64_t samples, const std::function<void()>& sign_of_life);

}  // namespace strata::trainer
