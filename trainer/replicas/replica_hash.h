// SPDX-License-Identifier: MIT
// The hash of what this rank holds of the model, to be compared with the hashes of ranks that should hold the same.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace strata::trainer {

// A hash of 64 bits, in four parts of 16 bits. A number in fp32 holds such a part exactly, so ranks can exchange the
// parts in the same sum as their losses.
class ReplicaHash {
 public:
  static constexpr int64_t kParts = 4;

  // `tensors` are fp32 and contiguous, and stay where they are. If there are none, nothing is hashed.
  ReplicaHash(at::Device device, int rank, int ranks, std::vector<at::Tensor> tensors);

  // fp32 [ranks * kParts] on the device, zero except for the place of this rank; empty if nothing is hashed. It is
  // always the same tensor, so that a captured step reads the right memory.
  const at::Tensor& values() const { return values_; }
  // Sets the place of this rank to the hash of the present contents. The host does not wait for a GPU.
  void take();

 private:
  const std::vector<at::Tensor> tensors_;
  at::Tensor values_, own_;  // own_: the place of this rank
  at::Tensor sum_;           // int64 [1]
};

}  // namespace strata::trainer
