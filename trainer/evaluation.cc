// SPDX-License-Identifier: MIT
#include "trainer/evaluation.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "sharding/process/stop_request.h"
#include "trainer/feed/batch_feed.h"

namespace strata::trainer {
namespace {

// Rounds of micro-batches between two looks for stop requests. On GPUs the host waits for the device in each look.
constexpr int64_t kRoundsPerLook = 4;

// True on all ranks if any of them was asked to stop.
bool asked_to_stop(sharding::Communicator& world) {
  const Tensor asked =
      at::scalar_tensor(sharding::stop_requested_here() ? 1 : 0, at::TensorOptions(at::kFloat).device(world.device()));
  world.all_reduce(asked, "stop requests").wait();
  return asked.item<float>() > 0;
}

}  // namespace

std::optional<Evaluation> evaluate(const Task& task, ShardedModel& model, sharding::Communicator& world,
                                   const TrainerConfig& config, int64_t samples,
                                   const std::function<void()>& round_is_over) {
  const at::NoGradGuard no_gradients;
  Tensor sums;
  bool stopped = false;
  model.begin_step();
  // Every rank takes part in every round, also without samples of its own, because the layers have collectives.
  const int64_t size = config.micro_batch, group = world.rank() / config.sharding.sequence;
  const int64_t in_round = config.global_micro_batch();
  for (int64_t first = 0; first < samples; first += in_round) {
    if (first / in_round % kRoundsPerLook == 0) stopped = asked_to_stop(world);
    if (stopped) break;
    const MicroBatch batch = task.evaluation_batch(first + group * size, size, samples);
    const Tensor part = task.evaluation_sums(to_device(batch, world.device()));
    sums = sums.defined() ? sums + part : part;
    round_is_over();
  }
  model.reshard();
  if (stopped) return std::nullopt;
  world.all_reduce(sums, "evaluation").wait();
  sums = sums.cpu();
  Evaluation result{{}, task.evaluation_items(samples, sums)};
  for (int64_t i = 0; i < sums.size(0); ++i) {
    result.means.push_back(sums[i].item<double>() / static_cast<double>(result.items));
  }
  return result;
}

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
