// SPDX-License-Identifier: MIT
#include "trainer/feed/batch_feed.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <utility>

namespace strata::trainer {
namespace {

constexpr int64_t kMostGraphThreads = 8;  // each thread holds the batches of one step in memory

MicroBatch like(const MicroBatch& batch, at::TensorOptions options) {
  return batch.with_each([&](const Tensor& tensor) { return at::empty_like(tensor, options); });
}

void copy(std::vector<MicroBatch>& to, const std::vector<MicroBatch>& from) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = from[i].copied_to(to[i]);
}

}  // namespace

MicroBatch to_device(const MicroBatch& batch, at::Device device) {
  return batch.with_each([&](const Tensor& tensor) { return tensor.to(device, /*non_blocking=*/true); });
}

BatchFeed::BatchFeed(Read read, at::Device device, bool own_graphs) : read_(std::move(read)), device_(device) {
  if (device.is_cpu()) return;
  if (own_graphs) {
    graphs_.emplace(read_, device, std::clamp<int64_t>(at::get_num_threads() - 1, 1, kMostGraphThreads));
  } else {
    reader_.emplace("batch feed");
  }
}

const std::vector<MicroBatch>& BatchFeed::next(int64_t step) {
  if (repeats_ && !batches_.empty()) {
    if (last_taken_ != nullptr) take(*last_taken_);  // a step copies its batches on the device
    return batches_;
  }
  if (device_.is_cpu() || graphs_) {
    batches_ = graphs_ ? graphs_->next(step) : read_(step);
    return batches_;
  }
  Stage* stage = ahead_.valid() ? ahead_.get() : fill(step);
  if (stage->step != step) stage = fill(step);  // after a jump to another step
  take(*stage);
  if (!repeats_) ahead_ = reader_->start([this, step] { return fill(step + 1); });
  return batches_;
}

// Reads a step and starts its copy to the device. Only one thread may call it at a time.
BatchFeed::Stage* BatchFeed::fill(int64_t step) {
  const c10::cuda::CUDAGuard on_device(device_);
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index());
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  Stage& stage = stages_[next_stage_];
  next_stage_ = 1 - next_stage_;
  const std::vector<MicroBatch> batches = read_(step);
  if (stage.copied == nullptr) {
    for (const MicroBatch& batch : batches) {
      stage.host.push_back(like(batch, at::TensorOptions().pinned_memory(true)));
      stage.device.push_back(like(batch, at::TensorOptions().device(device_)));
    }
    stage.copied = std::make_unique<sharding::GpuEvent>();
    stage.taken = std::make_unique<sharding::GpuEvent>();
  } else {
    stage.copied->wait_on_host();  // the copy of two steps ago may still read the pinned memory
    stage.taken->block(stream);
  }
  copy(stage.host, batches);
  copy(stage.device, stage.host);
  stage.copied->record(stream);
  stage.step = step;
  return &stage;
}

cudaStream_t BatchFeed::current_stream() const { return c10::cuda::getCurrentCUDAStream(device_.index()); }

void BatchFeed::take(Stage& stage) {
  stage.copied->block(current_stream());
  if (batches_.empty()) {
    for (const MicroBatch& batch : stage.device) batches_.push_back(like(batch, at::TensorOptions()));
  }
  copy(batches_, stage.device);
  stage.taken->record(current_stream());
  last_taken_ = &stage;
}

}  // namespace strata::trainer
