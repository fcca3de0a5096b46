// SPDX-License-Identifier: MIT
// A communicator that counts the time for which somebody waited for it.
#pragma once

#include <memory>
#include <vector>

#include "sharding/communicator.h"
#include "trainer/phase_timer.h"

namespace strata::trainer {

using sharding::PendingCollective;

class TimedCommunicator : public sharding::Communicator {
 public:
  // `timer` must outlive this and what this starts.
  TimedCommunicator(std::unique_ptr<Communicator> inner, PhaseTimer& timer) : inner_(std::move(inner)), timer_(timer) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  at::Device device() const override { return inner_->device(); }
  PendingCollective all_gather(at::Tensor output, const at::Tensor& input, std::string_view label) override {
    return timed(inner_->all_gather(std::move(output), input, label));
  }
  PendingCollective reduce_scatter(at::Tensor output, const at::Tensor& input, std::string_view label) override {
    return timed(inner_->reduce_scatter(std::move(output), input, label));
  }
  PendingCollective all_reduce(at::Tensor tensor, std::string_view label) override {
    return timed(inner_->all_reduce(std::move(tensor), label));
  }
  PendingCollective broadcast(at::Tensor tensor, int root, std::string_view label) override {
    return timed(inner_->broadcast(std::move(tensor), root, label));
  }
  PendingCollective all_to_all(at::Tensor output, const std::vector<int64_t>& output_counts, const at::Tensor& input,
                               const std::vector<int64_t>& input_counts, std::string_view label) override {
    return timed(inner_->all_to_all(std::move(output), output_counts, input, input_counts, label));
  }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<TimedCommunicator>(inner_->split(color), timer_);
  }

 private:
  struct TimedState : PendingCollective::State {
    TimedState(PendingCollective inner, PhaseTimer& timer) : inner(std::move(inner)), timer(timer) {}
    void wait() override {
      const PhaseTimer::Scope scope(timer, Phase::communication);
      inner.wait();
    }
    PendingCollective inner;
    PhaseTimer& timer;
  };
  PendingCollective timed(PendingCollective inner) {
    return PendingCollective(std::make_shared<TimedState>(std::move(inner), timer_));
  }

  std::unique_ptr<Communicator> inner_;
  PhaseTimer& timer_;
};

}  // namespace strata::trainer
