// SPDX-License-Identifier: MIT
// The micro-batches of a step, with the graphs that belong to them, in one block of memory: one copy brings all of it
// to a device, whatever it is made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "trainer/tasks/task.h"

namespace strata::trainer {

// The same batch with each of its tensors replaced.
MicroBatch with_each(const MicroBatch& batch, const std::function<Tensor(const Tensor&)>& replaced);

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
