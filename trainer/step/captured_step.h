// SPDX-License-Identifier: MIT
// A whole step as one CUDA graph: captured once, replayed for every further step.
#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>

#include "sharding/process/gpu_watch.h"

namespace strata::trainer {

class CapturedStep {
 public:
  explicit CapturedStep(sharding::GpuWatch& watch) : watch_(watch) {}

  // Eager steps before the capture. They create handles, workspaces and the connections of NCCL.
  static constexpr int64_t kWarmUpSteps = 3;

  bool is_captured() const { return captured_; }
  // Captures the work that `step` queues on the current stream and on streams that wait for it. Nothing of it runs. The
  // last work of the step must wait for all streams that it used. `rehearse` runs before the capture, when no memory is
  // cached. It does the work that must later find memory beside the memory of the captured step.
  void capture(const std::function<void()>& rehearse, const std::function<void()>& step);
  void replay();
  // Waits for the GPU and frees the memory of the captured step, which cannot be replayed any more.
  void release();

 private:
  sharding::GpuWatch& watch_;
  at::cuda::CUDAGraph graph_;
  bool captured_ = false;
};

}  // namespace strata::trainer
