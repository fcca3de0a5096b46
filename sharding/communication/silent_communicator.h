// SPDX-License-Identifier: MIT
// A communicator for one process that plays one rank of several: tensors have the sizes of several ranks, and nothing
// is sent.
#pragma once

#include <ATen/ops/zeros.h>

#include <memory>

#include "sharding/communication/communicator.h"

namespace strata::sharding {

// Collectives check their arguments, end at once and change no tensor, so it suits tensors without values (device
// meta).
class SilentCommunicator : public Communicator {
 public:
  SilentCommunicator(int rank, int size, at::Device device) : rank_(rank), size_(size), device_(device) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  at::Device device() const override { return device_; }
  PendingCollective start(const Collective&) override { return {}; }
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override { return at::zeros({elements}, options); }
  // Cannot split, because there is no other rank whose color is known. A trace makes its mesh without it.
  std::unique_ptr<Communicator> split(int) override { return nullptr; }

 private:
  int rank_, size_;
  at::Device device_;
};

}  // namespace strata::sharding
