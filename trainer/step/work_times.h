// SPDX-License-Identifier: MIT
// The seconds that each rank works on its own in a step, while others may wait for it. Ranks exchange them with the
// loss.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAEvent.h>

#include <array>
#include <string_view>
#include <vector>

#include "trainer/report/phase_timer.h"

namespace strata::trainer {

// On CPUs these are the seconds of each phase except communication, evaluation and checkpoint. On GPUs it is the time
// from the end of a step to the inputs of the next: the host was late, or worked in between. The host never waits to
// learn it.
class WorkTimes {
 public:
  WorkTimes(at::Device device, int rank, int ranks, PhaseTimer& timer);

  // Names of the times of each rank, in the order of values().
  static std::vector<std::string_view> phase_names(at::Device device);
  // Returns the number of values().
  static int64_t count(at::Device device, int64_t ranks);
  // fp32 [ranks * phases] on the device, zero except for the places of this rank; empty for a single rank. It is
  // always the same tensor, so that a captured step reads the right memory.
  const at::Tensor& values() const { return values_; }

  // Call these in each step: before its inputs are read, when they are set, and when all its work is queued.
  void write_last();  // sets the places of this rank to what was measured last
  void inputs_are_set();
  void step_is_queued();

 private:
  static constexpr std::array kPhases = {Phase::data, Phase::forward, Phase::backward, Phase::optimizer, Phase::report};
  void measure_host();
  void measure_gpu();

  const at::Device device_;
  PhaseTimer& timer_;
  at::Tensor values_;
  std::vector<at::Tensor> own_;  // the places of this rank, 0-dim
  PhaseTimer::Seconds before_;   // on CPUs, PhaseTimer::total() before the last step
  // On GPUs, the events of the last steps; a step's are recorded again three steps later.
  struct Events {
    c10::cuda::CUDAEvent begin{cudaEventDefault}, end{cudaEventDefault};  // with timing
  };
  std::array<Events, 3> events_;
  size_t step_ = 0;  // steps since the construction
};

}  // namespace strata::trainer
