// SPDX-License-Identifier: MIT
// The collectives of a group of ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sharding/communication/collective.h"

namespace strata::sharding {

using at::Tensor;

// A collective that was started. On GPUs, wait() makes the current stream wait; on CPUs, it blocks the caller. Further
// calls of wait() do nothing.
class PendingCollective {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;
  };
  PendingCollective() = default;  // nothing is pending
  explicit PendingCollective(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void wait() {
    if (state_) state_->wait();
    state_.reset();
  }

 private:
  std::shared_ptr<State> state_;
};

// Reductions sum and never average, except all_reduce_max. All ranks start collectives in the same order. The tensors
// of a call are contiguous and of one dtype (float32, bfloat16, float16, float64, int64, or uint8, which is only
// gathered); they stay alive and unmodified until wait(). `label` is the name of the parameter group or the purpose,
// which the comparison of ranks, the watchdog and the profile print. A call with other tensors throws a c10::Error that
// names the collective and its label.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The device of the tensors.
  virtual at::Device device() const = 0;

  // output [n * size] <- the inputs [n] of all ranks in rank order. `input` may be this rank's own slice of `output`.
  PendingCollective all_gather(const Tensor& output, const Tensor& input, std::string_view label) {
    return start(all_gather_of(output, input, size(), label));
  }
  // output [n] <- this rank's slice of the sum of the inputs [n * size]. `output` may be this rank's own slice of
  // `input`.
  PendingCollective reduce_scatter(const Tensor& output, const Tensor& input, std::string_view label) {
    return start(reduce_scatter_of(output, input, size(), label));
  }
  // tensor <- the sum over ranks, the same bits on every rank.
  PendingCollective all_reduce(const Tensor& tensor, std::string_view label) {
    return start(all_reduce_of(tensor, label));
  }
  // tensor <- the largest numbers of all ranks, the same on every rank. A NaN may be lost.
  PendingCollective all_reduce_max(const Tensor& tensor, std::string_view label) {
    return start(all_reduce_of(tensor, label, Operation::all_reduce_max));
  }
  // tensor <- the tensor of rank `root`.
  PendingCollective broadcast(const Tensor& tensor, int root, std::string_view label) {
    return start(broadcast_of(tensor, root, size(), label));
  }
  // Sends input_counts[i] elements to rank i and receives output_counts[i] elements from rank i. In both tensors the
  // elements are ordered by rank.
  PendingCollective all_to_all(const Tensor& output, const std::vector<int64_t>& output_counts, const Tensor& input,
                               const std::vector<int64_t>& input_counts, std::string_view label) {
    return start(all_to_all_of(output, output_counts, input, input_counts, size(), label));
  }
  // Starts one of the collectives above, which have checked its arguments.
  virtual PendingCollective start(const Collective& collective) = 0;

  // Allocates zeros in the memory that is fastest for the inputs and outputs of all_gather, whole or in slices. This is
  // a collective over all ranks of this communicator, with the same size on each.
  virtual Tensor gather_buffer(int64_t elements, at::TensorOptions options) = 0;
  // Returns a communicator of the ranks with the same color, ordered by rank. This is a collective over all ranks of
  // this communicator.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
};

}  // namespace strata::sharding
