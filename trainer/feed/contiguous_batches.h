// SPDX-License-Identifier: MIT
// The micro-batches of a step, with any number of tensors, in one block of memory. One copy moves all of it to a
// device.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/tasks/micro_batch.h"

namespace strata::trainer {

class ContiguousBatches {
 public:
  ContiguousBatches() = default;
  // `pinned`: copies to a GPU do not block the host.
  ContiguousBatches(const std::vector<MicroBatch>& batches, bool pinned);

  // Copies the block on the current stream and returns the batches on `device`.
  std::vector<MicroBatch> on(at::Device device) const;

 private:
  std::vector<MicroBatch> batches_;  // views of the block
  Tensor block_;
};

}  // namespace strata::trainer
