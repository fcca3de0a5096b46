// SPDX-License-Identifier: MIT
// A communicator that measures the time of waiting for collectives and makes them visible to the profiler by name.
#pragma once

#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sharding/communication/communicator.h"
#include "trainer/report/phase_timer.h"

namespace strata::trainer {

using sharding::PendingCollective;

class TimedCommunicator : public sharding::Communicator {
 public:
  // `timer` must outlive this object and the collectives that it starts.
  TimedCommunicator(std::unique_ptr<Communicator> inner, PhaseTimer& timer) : inner_(std::move(inner)), timer_(timer) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  at::Device device() const override { return inner_->device(); }
  PendingCollective all_gather(at::Tensor output, const at::Tensor& input, std::string_view label) override {
    return timed("all_gather", label, [&] { return inner_->all_gather(std::move(output), input, label); });
  }
  PendingCollective reduce_scatter(at::Tensor output, const at::Tensor& input, std::string_view label) override {
    return timed("reduce_scatter", label, [&] { return inner_->reduce_scatter(std::move(output), input, label); });
  }
  PendingCollective all_reduce(at::Tensor tensor, std::string_view label) override {
    return timed("all_reduce", label, [&] { return inner_->all_reduce(std::move(tensor), label); });
  }
  PendingCollective broadcast(at::Tensor tensor, int root, std::string_view label) override {
    return timed("broadcast", label, [&] { return inner_->broadcast(std::move(tensor), root, label); });
  }
  PendingCollective all_to_all(at::Tensor output, const std::vector<int64_t>& output_counts, const at::Tensor& input,
                               const std::vector<int64_t>& input_counts, std::string_view label) override {
    return timed("all_to_all", label,
                 [&] { return inner_->all_to_all(std::move(output), output_counts, input, input_counts, label); });
  }
  at::Tensor gather_buffer(int64_t elements, at::TensorOptions options) override {
    return inner_->gather_buffer(elements, options);
  }
  std::unique_ptr<Communicator> split(int color) override {
    return std::make_unique<TimedCommunicator>(inner_->split(color), timer_);
  }

 private:
  struct TimedState : PendingCollective::State {
    TimedState(PendingCollective inner, std::string name, PhaseTimer& timer)
        : inner(std::move(inner)), name(std::move(name)), timer(timer) {}
    void wait() override {
      const PhaseTimer::Scope scope(timer, Phase::communication, name);
      inner.wait();
    }
    PendingCollective inner;
    std::string name;
    PhaseTimer& timer;
  };

  // Names of scopes: "all_gather blocks.3" starts a collective, "wait for all_gather blocks.3" waits for it.
  template <class Start>
  PendingCollective timed(std::string_view op, std::string_view label, Start start) {
    const std::string name = std::string(op).append(" ").append(label);
    at::RecordFunction scope(at::RecordScope::USER_SCOPE);
    if (scope.isActive()) scope.before(name);
    return PendingCollective(std::make_shared<TimedState>(start(), "wait for " + name, timer_));
  }

  std::unique_ptr<Communicator> inner_;
  PhaseTimer& timer_;
};

}  // namespace strata::trainer
