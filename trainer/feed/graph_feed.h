// SPDX-License-Identifier: MIT
// Delivers the micro-batches of each step on a GPU if they have graphs of their own, whose sizes change in every step.
// Several threads read them ahead and a separate CUDA stream copies them.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "sharding/process/gpu_event.h"
#include "trainer/feed/contiguous_batches.h"

namespace strata::trainer {

class GraphFeed {
 public:
  // `read` returns the micro-batches of a step on the host. It is called for up to `threads` steps at once.
  using Read = std::function<std::vector<MicroBatch>(int64_t step)>;
  GraphFeed(Read read, at::Device device, int64_t threads);

  // Returns new tensors that are ready on the current stream. An error of `read` is thrown by the call for its step.
  std::vector<MicroBatch> next(int64_t step);

 private:
  struct Reading {
    int64_t step;
    std::future<ContiguousBatches> batches;
  };
  // The step that is being copied to the device. There is only one, so the device holds batches of this step and the
  // next one at most.
  struct Copying {
    int64_t step;
    std::vector<MicroBatch> batches;
    std::exception_ptr error;  // thrown by `read`
  };
  void read(int64_t first, int64_t last);
  void start_copy();

  const Read read_;
  const at::Device device_;
  const int64_t threads_;
  std::deque<Reading> reading_;  // consecutive steps
  std::optional<Copying> copying_;
  sharding::GpuEvent copied_;
};

}  // namespace strata::trainer
