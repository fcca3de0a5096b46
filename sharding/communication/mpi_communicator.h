// SPDX-License-Identifier: MIT
// Collectives of CPU tensors over MPI. Messages are exchanged on the communication thread. Sums are computed in rank
// order, so that results are reproducible bit for bit.
#pragma once

#include "sharding/communication/communicator.h"
#include "sharding/communication/host_group.h"

namespace strata::sharding {

class MpiCommunicator : public Communicator {
 public:
  // Requires a group of two or more ranks; a single rank uses a LocalCommunicator.
  explicit MpiCommunicator(HostGroup group);
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  at::Device device() const override { return at::kCPU; }
  // Queues the collective on the communication thread. The tag of its messages is derived from it and its sequence
  // number.
  PendingCollective start(const Collective& collective) override;
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override;
  std::unique_ptr<Communicator> split(int color) override;

 private:
  HostGroup group_;
  int64_t sequence_ = 0;
};

}  // namespace strata::sharding
