// SPDX-License-Identifier: MIT
#include "trainer/tasks/step_batches.h"

namespace strata::trainer {

std::vector<MicroBatch> read_batches(const Task& task, const TrainerConfig& config, int rank, int64_t step) {
  std::vector<MicroBatch> batches;
  const int64_t size = config.micro_batch, group = rank / config.sharding.sequence;
  const int64_t first = (step - 1) * config.batch + group * size;
  for (int64_t i = 0; i < config.micro_batches(); ++i) {
    batches.push_back(task.training_batch(first + i * size * config.sample_groups(), size));
  }
  return batches;
}

}  // namespace strata::trainer
