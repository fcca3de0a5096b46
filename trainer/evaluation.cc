// SPDX-License-Identifier: MIT
#include "trainer/evaluation.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>

namespace strata::trainer {

Evaluation evaluate(const Task& task, ShardedModel& model, sharding::Communicator& world, int64_t micro_batch,
                    int64_t samples) {
  const at::NoGradGuard no_gradients;
  const Tensor one = at::ones({});
  double sum = 0;
  model.begin_step();
  // All ranks take part in every round, also those for which no samples are left: the layers' collectives need them.
  for (int64_t round = 0; round < samples; round += micro_batch * world.size()) {
    const MicroBatch batch = task.evaluation_batch(round + world.rank() * micro_batch, micro_batch, samples);
    sum += task.loss(batch, one, /*dropout_key=*/{}).item<double>();
  }
  model.reshard();
  const Tensor total = at::full({}, sum, at::kDouble);
  world.all_reduce(total, "evaluation").wait();
  const int64_t items = samples * task.items_per_sample();
  return {total.item<double>() / static_cast<double>(items), items};
}

}  // namespace strata::trainer
