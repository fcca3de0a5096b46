// SPDX-License-Identifier: MIT
// A whole step as one CUDA graph: captured once, replayed for every further step.
#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>
#include <string>

#include "sharding/process/gpu_watch.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// Why steps of a run are not captured; empty: they are. The same on all ranks. `new_graphs`: see sees_new_graphs.
std::string why_no_graph(CudaGraph wish, const FaultConfig& fault, const modules::KernelsConfig& kernels,
                         bool new_graphs, bool on_gpu);

class StepGraph {
 public:
  explicit StepGraph(sharding::GpuWatch& watch) : watch_(watch) {}

  // Steps that run eagerly before: they make what is made once (handles, workspaces, connections of NCCL).
  static constexpr int64_t kWarmUpSteps = 3;

  bool captured() const { return captured_; }
  // Records what `step` queues on the current stream and on those that wait for it; nothing of it runs. The step must
  // end joined: its last work waits for all streams that it used.
  void capture(const std::function<void()>& step);
  void replay();
  // Waits for the GPU, and gives the memory of the captured step back: it is not replayed any more.
  void release();

 private:
  sharding::GpuWatch& watch_;
  at::cuda::CUDAGraph graph_;
  bool captured_ = false;
};

}  // namespace strata::trainer
