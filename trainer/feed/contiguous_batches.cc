// SPDX-License-Identifier: MIT
#include "trainer/feed/contiguous_batches.h"

#include <ATen/ops/empty.h>

namespace strata::trainer {
namespace {

constexpr int64_t kAlignment = 256;  // alignment of each tensor, as in separate allocations

int64_t bytes_of(const Tensor& tensor) {
  return (static_cast<int64_t>(tensor.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
}

// Returns a view like `tensor` into `block` at `place`, and moves `place` to the next free byte.
Tensor next_in(const Tensor& block, int64_t& place, const Tensor& tensor) {
  const Tensor bytes = block.narrow(0, place, static_cast<int64_t>(tensor.nbytes()));
  place += bytes_of(tensor);
  return bytes.view(tensor.scalar_type()).view(tensor.sizes());
}

}  // namespace

ContiguousBatches::ContiguousBatches(const std::vector<MicroBatch>& batches, bool pinned) {
  int64_t bytes = 0;
  for (const MicroBatch& batch : batches) {
    for (const Tensor& tensor : batch.tensors()) bytes += bytes_of(tensor);
  }
  block_ = at::empty({bytes}, at::TensorOptions(at::kByte).pinned_memory(pinned));
  int64_t place = 0;
  const auto pack = [&](const Tensor& tensor) { return next_in(block_, place, tensor).copy_(tensor); };
  for (const MicroBatch& batch : batches) batches_.push_back(batch.with_each(pack));
}

std::vector<MicroBatch> ContiguousBatches::on(at::Device device) const {
  const Tensor block = block_.to(device, /*non_blocking=*/true);
  std::vector<MicroBatch> result;
  int64_t place = 0;
  const auto there = [&](const Tensor& tensor) { return next_in(block, place, tensor); };
  for (const MicroBatch& batch : batches_) result.push_back(batch.with_each(there));
  return result;
}

}  // namespace strata::trainer
