// SPDX-License-Identifier: MIT
// The micro-batches of a step, of any number of tensors, in one block of memory: one copy brings all of it to a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trainer/tasks/micro_batch.h"

namespace strata::trainer {

class PackedBatches {
 public:
  PackedBatches() = default;
  // `pinned`: copies to a GPU do not hold up the host.
  PackedBatches(const std::vector<MicroBatch>& batches, bool pinned);

  // Copied by the current stream.
  std::vector<MicroBatch> on(at::Device device) const;

 private:
  std::vector<MicroBatch> batches_;  // views of the block
  Tensor block_;
};

}  // namespace strata::trainer
