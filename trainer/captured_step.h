// SPDX-License-Identifier: MIT
// A whole step as one CUDA graph: captured once, replayed for every further step.
#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>
#include <string>

#include "sharding/process/gpu_watch.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// Returns the reason why steps are not captured; empty if they are. It is the same on all ranks. `new_graphs`: see
// sees_new_graphs.
std::string why_no_graph(CudaGraph wish, const FaultConfig& fault, const modules::KernelsConfig& kernels,
                         bool new_graphs, bool on_gpu);

class CapturedStep {
 public:
  explicit CapturedStep(sharding::GpuWatch& watch) : watch_(watch) {}

  // Eager steps before the capture. They create handles, workspaces and the connections of NCCL.
  static constexpr int64_t kWarmUpSteps = 3;

  bool captured() const { return captured_; }
  // Captures the work that `step` queues on the current stream and on streams that wait for it. Nothing of it runs. The
  // last work of the step must wait for all streams that it used.
  void capture(const std::function<void()>& step);
  void replay();
  // Waits for the GPU and frees the memory of the captured step, which cannot be replayed any more.
  void release();

 private:
  sharding::GpuWatch& watch_;
  at::cuda::CUDAGraph graph_;
  bool captured_ = false;
};

}  // namespace strata::trainer
