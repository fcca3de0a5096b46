// SPDX-License-Identifier: MIT
#include "trainer/batch_feed.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <utility>

namespace strata::trainer {
namespace {

MicroBatch like(const MicroBatch& batch, at::TensorOptions options) {
  const auto like_it = [&](const Tensor& tensor) {
    return tensor.defined() ? at::empty_like(tensor, options) : tensor;
  };
  return {like_it(batch.inputs), like_it(batch.targets), batch.first_sample, like_it(batch.share)};
}

void copy(std::vector<MicroBatch>& to, const std::vector<MicroBatch>& from) {
  for (size_t i = 0; i < from.size(); ++i) {
    to[i].inputs.copy_(from[i].inputs, /*non_blocking=*/true);
    to[i].targets.copy_(from[i].targets, /*non_blocking=*/true);
    if (from[i].share.defined()) to[i].share.copy_(from[i].share, /*non_blocking=*/true);
    to[i].first_sample = from[i].first_sample;
  }
}

bool has_own_graph(const std::vector<MicroBatch>& batches) { return batches.front().graph != nullptr; }

}  // namespace

MicroBatch to_device(const MicroBatch& batch, at::Device device) {
  MicroBatch moved = batch;
  for (Tensor* tensor : {&moved.inputs, &moved.targets, &moved.share}) {
    if (tensor->defined()) *tensor = tensor->to(device, /*non_blocking=*/true);
  }
  if (!batch.graph) return moved;
  auto graph = std::make_shared<modules::GraphStep>(*batch.graph);
  for (modules::WeightedGraph& layer : graph->layers) layer = layer.to(device);
  for (modules::WeightedGraph* other : {&graph->features, &graph->pooling}) {
    if (other->graph.targets > 0) *other = other->to(device);
  }
  moved.graph = std::move(graph);
  return moved;
}

BatchFeed::BatchFeed(Read read, at::Device device) : read_(std::move(read)), device_(device) {
  if (device.is_cuda()) reader_.emplace("batch feed");
}

const std::vector<MicroBatch>& BatchFeed::next(int64_t step) {
  if (device_.is_cpu()) {
    batches_ = read_(step);
    return batches_;
  }
  Stage* stage = ahead_.valid() ? ahead_.get() : fill(step);
  if (stage->step != step) stage = fill(step);  // after a jump to another step
  take(*stage);
  Stage& next_one = stages_[next_stage_];
  // What the other stage holds was read by the step before, all of whose work is queued by now.
  if (has_own_graph(stage->device) && next_one.taken) next_one.taken->record(current_stream());
  ahead_ = reader_->start([this, step] { return fill(step + 1); });
  return batches_;
}

// Reads a step and starts its copy to the device. By one thread at a time.
BatchFeed::Stage* BatchFeed::fill(int64_t step) {
  const c10::cuda::CUDAGuard on_device(device_);
  static const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device_.index());
  const c10::cuda::CUDAStreamGuard on_stream(stream);
  Stage& stage = stages_[next_stage_];
  next_stage_ = 1 - next_stage_;
  const std::vector<MicroBatch> batches = read_(step);
  const bool own_graph = has_own_graph(batches);
  if (stage.copied == nullptr) {
    if (!own_graph) {
      for (const MicroBatch& batch : batches) {
        stage.host.push_back(like(batch, at::TensorOptions().pinned_memory(true)));
        stage.device.push_back(like(batch, at::TensorOptions().device(device_)));
      }
    }
    stage.copied = std::make_unique<sharding::GpuEvent>();
    stage.taken = std::make_unique<sharding::GpuEvent>();
  } else {
    stage.copied->wait_on_host();  // the copy of two steps ago reads the pinned memory
    stage.taken->hold_back(stream);
  }
  if (own_graph) {
    stage.device.clear();
    for (const MicroBatch& batch : batches) stage.device.push_back(to_device(batch, device_));
  } else {
    copy(stage.host, batches);
    copy(stage.device, stage.host);
  }
  stage.copied->record(stream);
  stage.step = step;
  return &stage;
}

cudaStream_t BatchFeed::current_stream() const { return c10::cuda::getCurrentCUDAStream(device_.index()); }

void BatchFeed::take(Stage& stage) {
  stage.copied->hold_back(current_stream());
  if (has_own_graph(stage.device)) {
    batches_ = stage.device;
    return;
  }
  if (batches_.empty()) {
    for (const MicroBatch& batch : stage.device) batches_.push_back(like(batch, at::TensorOptions()));
  }
  copy(batches_, stage.device);
  stage.taken->record(current_stream());
}

}  // namespace strata::trainer
