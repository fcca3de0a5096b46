// SPDX-License-Identifier: MIT
// StepGraph: a step on a GPU, captured once as a CUDA graph and then replayed. The host takes longer to queue the small
// kernels of a step of generation than the GPU to run them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAGraph.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace strata::generation {

class StepGraph {
 public:
  // Runs `step`, which reads and writes the same memory in each call, and returns its result. The next call overwrites
  // the result. Throws an Error with ExitCode::configuration if the step cannot be captured.
  at::Tensor run(const std::function<at::Tensor()>& step);

 private:
  // Eager steps before the capture. They create handles and workspaces.
  static constexpr int64_t kWarmUpSteps = 2;

  int64_t eager_steps_ = 0;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  at::Tensor result_;
};

}  // namespace strata::generation
