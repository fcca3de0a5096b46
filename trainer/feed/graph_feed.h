// SPDX-License-Identifier: MIT
// The micro-batches of each step where they have graphs of their own, of other sizes in every step, on a GPU: read
// ahead by several threads and copied by a stream of their own.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "sharding/process/gpu_event.h"
#include "trainer/feed/packed_batches.h"

namespace strata::trainer {

class GraphFeed {
 public:
  // `read` gives the micro-batches of a step on the host, and is called for up to `threads` steps at once.
  using Read = std::function<std::vector<MicroBatch>(int64_t step)>;
  GraphFeed(Read read, at::Device device, int64_t threads);

  // On the current stream, in memory of their own. An error of `read` is thrown here, for the step that it belongs to.
  std::vector<MicroBatch> next(int64_t step);

 private:
  struct Reading {
    int64_t step;
    std::future<PackedBatches> packed;
  };
  // On their way to the device: of one step, so that no more of them are there than of this step and the next.
  struct Copying {
    int64_t step;
    std::vector<MicroBatch> batches;
    std::exception_ptr error;  // of `read`
  };
  void read(int64_t first, int64_t last);
  void start_copy();

  const Read read_;
  const at::Device device_;
  const int64_t threads_;
  std::deque<Reading> reading_;  // of steps that follow each other
  std::optional<Copying> copying_;
  sharding::GpuEvent copied_;
};

}  // namespace strata::trainer
