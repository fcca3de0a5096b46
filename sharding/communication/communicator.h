// SPDX-License-Identifier: MIT
// What one rank can do together with the other ranks of its group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace strata::sharding {

using at::Tensor;

// A collective under way. wait() holds back the current stream on GPUs and the caller on CPUs; a second wait() is free.
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

// Collectives sum and never average; they are started in the same order on all ranks. Tensors are contiguous, of one
// dtype per call (float32, bfloat16, float64, int64), and stay alive and untouched until wait(). `label` names the
// parameter group or the purpose: it is what the plan check, the watchdog and the profile print.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Where its tensors live.
  virtual at::Device device() const = 0;

  // output [n * size] <- the inputs [n] of all ranks in rank order. `input` may be this rank's own part of `output`.
  virtual PendingCollective all_gather(Tensor output, const Tensor& input, std::string_view label) = 0;
  // output [n] <- this rank's part of the sum of the inputs [n * size]. `output` may be this rank's own part of
  // `input`.
  virtual PendingCollective reduce_scatter(Tensor output, const Tensor& input, std::string_view label) = 0;
  // tensor <- the sum over ranks, the same bits on every rank.
  virtual PendingCollective all_reduce(Tensor tensor, std::string_view label) = 0;
  // tensor <- that of `root`.
  virtual PendingCollective broadcast(Tensor tensor, int root, std::string_view label) = 0;
  // Sends input[counts] to each rank in turn and receives output[counts] from each: elements, in rank order.
  virtual PendingCollective all_to_all(Tensor output, const std::vector<int64_t>& output_counts, const Tensor& input,
                                       const std::vector<int64_t>& input_counts, std::string_view label) = 0;
  // Zeros, in the memory that all_gather moves best: for its inputs and outputs, whole or in part. Collective over all
  // ranks of this communicator, of the same size on each.
  virtual Tensor gather_buffer(int64_t elements, at::TensorOptions options) = 0;
  // The ranks with the same color, ordered by rank. Collective over all ranks of this communicator.
  virtual std::unique_ptr<Communicator> split(int color) = 0;
};

}  // namespace strata::sharding
