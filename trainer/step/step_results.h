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

struct StepResult {
  int64_t step = 0;
  float loss = 0;             // mean over the items of all ranks
  float gradient_norm = 0;    // global, before clipping
  float stop = 0;             // above 0: a rank was asked to stop
  float unusable = 0;         // samples of the step that could not be used, over all ranks
  float skipped = 0;          // 1: the loss or a gradient was not finite, and the update was skipped
  float overflowed = 0;       // 1: it was skipped only because the scaled loss made gradients too large for float16
  float loss_scale = 1;       // of this step; see LossScale
  float loss_of_rank = 0;     // the part of this rank in the loss, before bad samples are left out of the mean
  float squares_of_rank = 0;  // the part of this rank in the square of the gradient norm, as the loss of the rank
  std::vector<float> work;    // seconds: see WorkTimes::values
  std::vector<float> hashes;  // see ReplicaHash::values
};

class StepResults {
 public:
  // `works` and `hashes` are the numbers of values of WorkTimes and of ReplicaHash.
  StepResults(at::Device device, int64_t works, int64_t hashes);

  // Each step writes loss, gradient norm, stop, unusable, skipped, overflowed, loss scale, the parts of this rank in
  // loss and squares, work and hashes of all ranks here: fp32 [9 + works + hashes] on the device.
  const at::Tensor& values() const { return values_; }
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
  const int64_t works_;
  at::Tensor values_;
  std::array<at::Tensor, 2> on_host_;  // pinned
  std::array<std::unique_ptr<sharding::GpuEvent>, 2> arrived_;
  std::deque<Pending> pending_;
  size_t next_place_ = 0;
};

}  // namespace strata::trainer
