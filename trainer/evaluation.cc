// SPDX-License-Identifier: MIT
#include "trainer/evaluation.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

namespace strata::trainer {

Evaluation evaluate(const Task& task, ShardedModel& model, sharding::Communicator& world, int64_t micro_batch,
                    int64_t samples) {
  const at::NoGradGuard no_gradients;
  const auto options = at::TensorOptions().device(world.device());
  const Tensor one = at::ones({}, options);
  const Tensor total = at::zeros({}, options.dtype(at::kDouble));
  model.begin_step();
  // All ranks take part in every round, also those for which no samples are left: the layers' collectives need them.
  for (int64_t round = 0; round < samples; round += micro_batch * world.size()) {
    MicroBatch batch = task.evaluation_batch(round + world.rank() * micro_batch, micro_batch, samples);
    batch.inputs = batch.inputs.to(world.device());
    batch.targets = batch.targets.to(world.device());
    total.add_(task.loss(batch, one, /*dropout_key=*/{}));
  }
  model.reshard();
  world.all_reduce(total, "evaluation").wait();
  const int64_t items = samples * task.items_per_sample();
  return {total.item<double>() / static_cast<double>(items), items};
}

}  // namespace strata::trainer
