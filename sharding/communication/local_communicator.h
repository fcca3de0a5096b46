// SPDX-License-Identifier: MIT
// The communicator of a group of one rank: its collectives are copies, on any device.
#pragma once

#include "sharding/communication/communicator.h"

namespace strata::sharding {

class LocalCommunicator : public Communicator {
 public:
  explicit LocalCommunicator(at::Device device = at::kCPU) : device_(device) {}
  int rank() const override { return 0; }
  int size() const override { return 1; }
  at::Device device() const override { return device_; }
  PendingCollective start(const Collective& collective) override;
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override;
  std::unique_ptr<Communicator> split(int color) override;

 private:
  const at::Device device_;
};

}  // namespace strata::sharding
