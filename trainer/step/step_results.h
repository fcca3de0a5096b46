// SPDX-License-Identifier: MIT
// The few numbers of a step that the host reads: at once on CPUs, one step later on GPUs.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "sharding/process/gpu_event.h"

namespace strata::trainer {

// The numbers of a step: on the host, or as 0-dim fp32 tensors on the device.
template <class T>
struct StepNumbers {
  T loss = {};             // mean over the items of all ranks
  T gradient_norm = {};    // global, before clipping
  T stop = {};             // above 0: a rank was asked to stop
  T unusable = {};         // samples of the step that could not be used, over all ranks
  T skipped = {};          // 1: the loss or a gradient was not finite, and the update was skipped
  T overflowed = {};       // 1: it was skipped only because the scaled loss made gradients too large for float16
  T loss_scale = {};       // scale of this step; see LossScale
  T loss_of_rank = {};     // the part of this rank in the loss, before bad samples are left out of the mean
  T squares_of_rank = {};  // the part of this rank in the square of the gradient norm

  // All of them, in the order in which StepResults keeps them.
  static constexpr std::array<T StepNumbers::*, 9> kMembers = {
      &StepNumbers::loss,       &StepNumbers::gradient_norm, &StepNumbers::stop,
      &StepNumbers::unusable,   &StepNumbers::skipped,       &StepNumbers::overflowed,
      &StepNumbers::loss_scale, &StepNumbers::loss_of_rank,  &StepNumbers::squares_of_rank};
};
static_assert(sizeof(StepNumbers<float>) == StepNumbers<float>::kMembers.size() * sizeof(float), "one is not listed");

struct StepResult : StepNumbers<float> {
  int64_t step = 0;
  std::vector<float> work;    // seconds: see WorkTimes::values
  std::vector<float> hashes;  // see ReplicaHash::values
};

class StepResults {
 public:
  // `work_values` and `hashes` are the numbers of values of WorkTimes and of ReplicaHash.
  StepResults(at::Device device, int64_t work_values, int64_t hashes);

  // Each step calls this once. `rank_values`: work and hashes of all ranks, fp32 [work_values + hashes] on the device.
  // Waits for nothing, so that a step can be captured.
  void write(const StepNumbers<at::Tensor>& numbers, const at::Tensor& rank_values);
  // Returns what was written last. It waits for the device.
  StepNumbers<float> last() const;
  // Call it after the work of `step` was queued. It starts the copy of the numbers to the host.
  void push(int64_t step);
  // Returns the oldest step that was pushed and not yet returned. On GPUs the newest one is held back unless `all` is
  // true. So the host waits for a step only after it has queued the next one, and is at most one step ahead.
  std::optional<StepResult> next(bool all);

 private:
  struct Pending {
    int64_t step;
    size_t place;
  };
  const at::Device device_;
  const int64_t work_values_;
  at::Tensor values_;                      // fp32 [numbers + work_values + hashes], on the device
  std::array<at::Tensor, 2> host_values_;  // pinned
  std::array<std::unique_ptr<sharding::GpuEvent>, 2> arrived_;
  std::deque<Pending> pending_;
  size_t next_place_ = 0;
};

}  // namespace strata::trainer
