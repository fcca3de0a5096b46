// SPDX-License-Identifier: MIT
#include "trainer/feed/packed_batches.h"

#include <ATen/ops/empty.h>

#include <memory>

namespace strata::trainer {
namespace {

using modules::GraphStep;
using modules::WeightedGraph;

constexpr int64_t kAlignment = 256;  // of each tensor, as those have that are allocated by themselves

int64_t bytes_of(const Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

// Where a tensor like this one lies in `block`, at `place`, which moves behind it.
Tensor next_in(const Tensor& block, int64_t& place, const Tensor& tensor) {
  const Tensor bytes = block.narrow(0, place, static_cast<int64_t>(tensor.nbytes()));
  place += bytes_of(tensor);
  return bytes.view(tensor.scalar_type()).view(tensor.sizes());
}

}  // namespace

MicroBatch with_each(const MicroBatch& batch, const std::function<Tensor(const Tensor&)>& replaced) {
  MicroBatch result = batch;
  for (Tensor* tensor : {&result.inputs, &result.targets, &result.share}) {
    if (tensor->defined()) *tensor = replaced(*tensor);
  }
  if (!batch.graph) return result;
  auto graph = std::make_shared<GraphStep>(*batch.graph);
  for (WeightedGraph& layer : graph->layers) layer = layer.with_each(replaced);
  for (WeightedGraph* other : {&graph->features, &graph->pooling}) *other = other->with_each(replaced);
  result.graph = std::move(graph);
  return result;
}

PackedBatches::PackedBatches(const std::vector<MicroBatch>& batches, bool pinned) {
  int64_t bytes = 0;
  const auto count = [&](const Tensor& tensor) {
    bytes += bytes_of(tensor);
    return tensor;
  };
  for (const MicroBatch& batch : batches) with_each(batch, count);
  block_ = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(pinned));
  int64_t place = 0;
  const auto pack = [&](const Tensor& tensor) { return next_in(block_, place, tensor).copy_(tensor); };
  for (const MicroBatch& batch : batches) batches_.push_back(with_each(batch, pack));
}

std::vector<MicroBatch> PackedBatches::on(at::Device device) const {
  const Tensor block = block_.to(device, /*non_blocking=*/true);
  std::vector<MicroBatch> result;
  int64_t place = 0;
  const auto there = [&](const Tensor& tensor) { return next_in(block, place, tensor); };
  for (const MicroBatch& batch : batches_) result.push_back(with_each(batch, there));
  return result;
}

}  // namespace strata::trainer
