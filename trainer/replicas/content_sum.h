// SPDX-License-Identifier: MIT
// Sums over the contents of tensors: all bits count, and where they stand.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/digest.h"

namespace strata::trainer {

// sum_of_piece on all threads that this rank may use.
ContentSum sum_on_all_threads(const float* values, int64_t count, int64_t offset);

// Adds ContentSum::low of `tensor` to `sum`, with wrap-around: fp32 and contiguous, and int64 [1] on the same device.
// On GPUs it queues one kernel, which needs no other memory. `offset` is the index of the tensor's first element.
void add_content(const at::Tensor& tensor, int64_t offset, const at::Tensor& sum);

}  // namespace strata::trainer
