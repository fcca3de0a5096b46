// SPDX-License-Identifier: MIT
#include "trainer/replicas/replica_hash.h"

#include <ATen/ops/zeros.h>

#include <utility>

#include "trainer/replicas/content_sum.h"

namespace strata::trainer {

ReplicaHash::ReplicaHash(at::Device device, int rank, int ranks, std::vector<at::Tensor> tensors)
    : tensors_(std::move(tensors)) {
  const auto options = at::TensorOptions(at::kFloat).device(device);
  values_ = at::zeros({tensors_.empty() ? 0 : ranks * kParts}, options);
  if (tensors_.empty()) return;
  own_ = values_.narrow(0, rank * kParts, kParts);
  sum_ = at::zeros({1}, options.dtype(at::kLong));
}

void ReplicaHash::take() {
  if (tensors_.empty()) return;
  sum_.zero_();
  int64_t offset = 0;  // elements are numbered over all tensors, so that the hash depends on the tensor of an element
  for (const at::Tensor& tensor : tensors_) {
    add_content(tensor, offset, sum_);
    offset += tensor.numel();
  }
  own_.copy_(sum_.view(at::kShort));
}

}  // namespace strata::trainer
