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
  PendingCollective all_gather(Tensor output, const Tensor& input, std::string_view label) override;
  PendingCollective reduce_scatter(Tensor output, const Tensor& input, std::string_view label) override;
  PendingCollective all_reduce(Tensor tensor, std::string_view label) override;
  PendingCollective broadcast(Tensor tensor, int root, std::string_view label) override;
  PendingCollective all_to_all(Tensor output, const std::vector<int64_t>& output_counts, const Tensor& input,
                               const std::vector<int64_t>& input_counts, std::string_view label) override;
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override;
  std::unique_ptr<Communicator> split(int color) override;

 private:
  const at::Device device_;
};

}  // namespace strata::sharding
