// SPDX-License-Identifier: MIT
// The few numbers that a step leaves, read by the host: at once on CPUs, one step later on GPUs.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "sharding/process/gpu_event.h"

namespace strata::trainer {

struct StepResult {
  int64_t step = 0;
  float loss = 0;           // mean over the items of all ranks
  float gradient_norm = 0;  // global, before clipping
  float stop = 0;           // above 0: some rank was asked to stop
  float skipped = 0;        // 1: a gradient was not finite and the update was left out
};

class StepResults {
 public:
  explicit StepResults(at::Device device);

  // Where each step writes loss, gradient norm, stop, skipped: fp32 [4] on the device.
  const at::Tensor& values() const { return values_; }
  // The work of `step` has been queued: its numbers start on their way to the host.
  void push(int64_t step);
  // The oldest step that has been pushed and not been given. On GPUs the newest is held back, unless `all` are wanted:
  // so the host waits for a step only when the next one is queued, and is never more than one ahead.
  std::optional<StepResult> next(bool all);

 private:
  struct Pending {
    int64_t step;
    size_t place;
  };
  const at::Device device_;
  at::Tensor values_;
  std::array<at::Tensor, 2> on_host_;  // pinned
  std::array<std::unique_ptr<sharding::GpuEvent>, 2> arrived_;
  std::deque<Pending> pending_;
  size_t next_place_ = 0;
};

}  // namespace strata::trainer
