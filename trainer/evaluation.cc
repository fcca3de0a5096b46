// SPDX-License-Identifier: MIT
#include "trainer/evaluation.h"

#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>

#include "trainer/feed/batch_feed.h"

namespace strata::trainer {

Evaluation evaluate(const Task& task, ShardedModel& model, sharding::Communicator& world, int64_t micro_batch,
                    int64_t samples, const std::function<void()>& sign_of_life) {
  const at::NoGradGuard no_gradients;
  Tensor sums;
  model.begin_step();
  // Every rank takes part in every round, also without samples of its own, because the layers have collectives.
  for (int64_t round = 0; round < samples; round += micro_batch * world.size()) {
    const MicroBatch batch = task.evaluation_batch(round + world.rank() * micro_batch, micro_batch, samples);
    const Tensor part = task.evaluation_sums(to_device(batch, world.device()));
    sums = sums.defined() ? sums + part : part;
    sign_of_life();
  }
  model.reshard();
  world.all_reduce(sums, "evaluation").wait();
  sums = sums.cpu();
  Evaluation result{{}, task.evaluation_items(samples)};
  for (int64_t i = 0; i < sums.size(0); ++i) {
    result.means.push_back(sums[i].item<double>() / static_cast<double>(result.items));
  }
  return result;
}

}  // namespace strata::trainer
