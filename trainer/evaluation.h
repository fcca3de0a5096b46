// SPDX-License-Identifier: MIT
// The mean loss of a model over validation samples, shared between ranks.
#pragma once

#include <cstdint>

#include "sharding/communicator.h"
#include "trainer/parallelize.h"
#include "trainer/task.h"

namespace strata::trainer {

struct Evaluation {
  double mean_loss = 0;  // nats per item
  int64_t items = 0;
};

// Over the first `samples` validation samples, `micro_batch` at a time on each rank. Collective; the same on all ranks.
Evaluation evaluate(const Task& task, ShardedModel& model, sharding::Communicator& world, int64_t micro_batch,
                    int64_t samples);

}  // namespace strata::trainer
