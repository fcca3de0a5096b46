// SPDX-License-Identifier: MIT
#include "trainer/feed/graph_feed.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/ParallelGuard.h>

#include <chrono>
#include <utility>

namespace strata::trainer {

GraphFeed::GraphFeed(Read read, at::Device device, int64_t threads)
    : read_(std::move(read)), device_(device), threads_(threads) {}

std::vector<MicroBatch> GraphFeed::next(int64_t step) {
  if (!copying_ || copying_->step != step) {  // the first step, a jump, or a host that is too slow
    if (reading_.empty() || reading_.front().step != step) reading_.clear();
    read(step, step);
    start_copy();
  }
  const Copying there = *std::exchange(copying_, std::nullopt);
  read(step + 1, step + threads_);
  if (there.error) std::rethrow_exception(there.error);
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device_.index());
  copied_.block(stream);
  // All tensors lie in one block. The copying stream may reuse it only after this stream is done with it.
  there.batches.front().tensors().front().record_stream(stream.unwrap());
  if (reading_.front().batches.wait_for(std::chrono::seconds(0)) == std::future_status::ready) start_copy();
  return there.batches;
}

// Starts to read the steps that are not being read yet, with one thread per step. If several threads shared the work of
// one step, they would wait for each other.
void GraphFeed::read(int64_t first, int64_t last) {
  for (int64_t next = reading_.empty() ? first : reading_.back().step + 1; next <= last; ++next) {
    reading_.push_back({next, std::async(std::launch::async, [this, next] {
                          const c10::ParallelGuard one_thread(true);
                          const c10::cuda::CUDAGuard on_device(device_);  // its context owns the pinned memory
                          return ContiguousBatches(read_(next), /*pinned=*/true);
                        })});
  }
}

// Starts the copy of the oldest step that is being read.
void GraphFeed::start_copy() {
  const c10::cuda::CUDAGuard on_device(device_);
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index());
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  Reading first = std::move(reading_.front());
  reading_.pop_front();
  copying_ = {first.step, {}, nullptr};
  try {
    copying_->batches = first.batches.get().on(device_);
    copied_.record(stream);
  } catch (...) {
    copying_->error = std::current_exception();
  }
}

}  // namespace strata::trainer
