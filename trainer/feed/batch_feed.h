// SPDX-License-Identifier: MIT
// The micro-batches of each step where the step wants them: on CPUs as they are read; on GPUs read ahead by a thread
// and copied by a stream of their own.
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

// The same on the device.
MicroBatch to_device(const MicroBatch& batch, at::Device device);

class BatchFeed {
 public:
  // `read` gives the micro-batches of a step on the host; on GPUs it is called by another thread, for one step ahead.
  // They are of the same shapes for every step, unless they have graphs of their own: then it is called for several
  // steps at once.
  using Read = GraphFeed::Read;
  BatchFeed(Read read, at::Device device, bool own_graphs = false);

  // On GPUs always the same tensors, filled on the current stream: a captured step finds them where they were; but new
  // ones where batches have graphs of their own. An error of `read` is thrown here, for the step that it belongs to.
  const std::vector<MicroBatch>& next(int64_t step);

 private:
  // Pinned memory, its copy on the device, and when each may be written again.
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
  std::optional<GraphFeed> graphs_;  // on GPUs, where batches have graphs of their own
  std::vector<MicroBatch> batches_;
  std::array<Stage, 2> stages_;
  size_t next_stage_ = 0;
  std::future<Stage*> ahead_;
  std::optional<WorkerThread> reader_;  // last: it uses the others
};

}  // namespace strata::trainer
