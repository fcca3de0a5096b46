// SPDX-License-Identifier: MIT
// A communicator that measures the time of waiting for collectives and makes them visible to the profiler by name.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>

#include <memory>
#include <string>
#include <utility>

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
  // Names of scopes: "all_gather blocks.3" starts a collective, "wait for all_gather blocks.3" waits for it. The input
  // of the first one is the bytes of the collective. It has none on a single rank, where nothing moves.
  PendingCollective start(const sharding::Collective& collective) override {
    const std::string name = std::string(sharding::name(collective.operation)) + " " + collective.label;
    at::RecordFunction scope(at::RecordScope::USER_SCOPE);
    if (scope.isActive()) {
      const c10::IValue bytes(collective.bytes());
      scope.before(name, c10::ArrayRef<const c10::IValue>(&bytes, size() > 1 ? 1 : 0));
    }
    return PendingCollective(std::make_shared<TimedState>(inner_->start(collective), "wait for " + name, timer_));
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

  std::unique_ptr<Communicator> inner_;
  PhaseTimer& timer_;
};

}  // namespace strata::trainer
