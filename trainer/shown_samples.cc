// SPDX-License-Identifier: MIT
#include "trainer/shown_samples.h"

#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "trainer/feed/batch_feed.h"

namespace strata::trainer {

Tensor shown_samples(const Task& task, const ShowsSamples& shows, ShardedModel& model, sharding::Communicator& world,
                     const TrainerConfig& config, int64_t samples, const std::function<void()>& round_is_over) {
  const at::NoGradGuard no_gradients;
  const int64_t size = config.micro_batch, group = world.rank() / config.sharding.sequence;
  Tensor all_values;
  model.begin_step();
  // Every rank takes part in every round, because the layers have collectives.
  for (int64_t first = 0; first < samples; first += config.global_micro_batch()) {
    const int64_t own_begin = first + group * size, rows = std::clamp<int64_t>(samples - own_begin, 0, size);
    const Tensor values =
        shows.shown_values(to_device(task.evaluation_batch(own_begin, size, samples), world.device()));
    if (!all_values.defined()) all_values = at::zeros({samples, values.size(1), values.size(2)}, values.options());
    if (rows > 0) all_values.narrow(0, own_begin, rows).copy_(values.narrow(0, 0, rows));
    round_is_over();
  }
  model.reshard();
  world.all_reduce(all_values, "shown samples").wait();
  return all_values.cpu();
}

}  // namespace strata::trainer
