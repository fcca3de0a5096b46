// SPDX-License-Identifier: MIT
// Delivers the micro-batches of each step. On CPUs they are read when they are needed. On GPUs a thread reads them
// ahead and a separate CUDA stream copies them.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "base/worker_thread.h"
#include "sharding/process/gpu_event.h"
#include "trainer/feed/graph_feed.h"
#include "trainer/tasks/micro_batch.h"

namespace strata::trainer {

// Returns a copy of the batch on the device.
MicroBatch to_device(const MicroBatch& batch, at::Device device);

class BatchFeed {
 public:
  // `read` returns the micro-batches of a step on the host. On GPUs another thread calls it, one step ahead. Shapes are
  // the same in every step, unless batches have graphs of their own. Then several threads call it at once, for
  // different steps.
  using Read = GraphFeed::Read;
  BatchFeed(Read read, at::Device device, bool own_graphs);

  // Returns the micro-batches of `step`, ready on the current stream. On GPUs they are always the same tensors, so that
  // a captured step reads the right memory. Batches with graphs of their own are new tensors. An error of `read` is
  // thrown by the call for its step.
  const std::vector<MicroBatch>& next(int64_t step);

  // Each step has the batches of the next call of next(), or of the last one if there was one. Nothing more is read.
  void repeat() { repeats_ = true; }

 private:
  // Pinned memory, its copy on the device, and the events after which each may be written again.
  struct Stage {
    int64_t step = -1;
    std::vector<MicroBatch> host, device;
    std::unique_ptr<sharding::GpuEvent> copied, taken;
  };
  Stage* fill(int64_t step);
  cudaStream_t current_stream() const;
  void take(Stage& stage);

  const Read read_;
  const at::Device device_;
  std::optional<GraphFeed> graphs_;  // on GPUs, if batches have graphs of their own
  std::vector<MicroBatch> batches_;
  std::array<Stage, 2> stages_;
  size_t next_stage_ = 0;
  bool repeats_ = false;
  Stage* last_taken_ = nullptr;
  std::future<Stage*> ahead_;
  std::optional<WorkerThread> reader_;  // last member, because its thread uses the others
};

}  // namespace strata::trainer
