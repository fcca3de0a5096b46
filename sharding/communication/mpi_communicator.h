// SPDX-License-Identifier: MIT
// Collectives of CPU tensors over MPI. Messages are exchanged on the communication thread. Sums are computed in rank
// order, so that results are reproducible bit for bit.
#pragma once

#include "sharding/communication/communicator.h"
#include "sharding/communication/host_group.h"

namespace strata::sharding {

struct Collective;

class MpiCommunicator : public Communicator {
 public:
  // Requires a group of two or more ranks; a single rank uses a LocalCommunicator.
  explicit MpiCommunicator(HostGroup group);
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  at::Device device() const override { return at::kCPU; }
  PendingCollective all_gather(Tensor output, const Tensor& input, std::string_view label) override;
  PendingCollective reduce_scatter(Tensor output, const Tensor& input, std::string_view label) override;
  PendingCollective all_reduce(Tensor tensor, std::string_view label) override;
  PendingCollective broadcast(Tensor tensor, int root, std::string_view label) override;
  PendingCollective all_to_all(Tensor output, const std::vector<int64_t>& output_counts, const Tensor& input,
                               const std::vector<int64_t>& input_counts, std::string_view label) override;
  Tensor gather_buffer(int64_t elements, at::TensorOptions options) override;
  std::unique_ptr<Communicator> split(int color) override;

 private:
  // Queues body(job) on the communication thread. The job's tag is derived from this collective and its sequence
  // number.
  template <typename Body>
  PendingCollective start(const Collective& collective, Body body);

  HostGroup group_;
  int64_t sequence_ = 0;
};

}  // namespace strata::sharding
