// SPDX-License-Identifier: MIT
// Where the time of a step goes: wall-clock seconds of this rank by phase.
#pragma once

#include <ATen/record_function.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace strata::trainer {

// communication: the part that the computation had to wait for; it is taken out of the phase in which it happened.
enum class Phase { data, forward, backward, communication, optimizer, evaluation, checkpoint };
inline constexpr std::array<const char*, 7> kPhaseNames = {"data",      "forward",    "backward",  "communication",
                                                           "optimizer", "evaluation", "checkpoint"};

class PhaseTimer {
 public:
  using Seconds = std::array<double, kPhaseNames.size()>;

  // Time from now on belongs to `phase`, until the scope ends; then again to the phase around it. A profile sees the
  // scope under `name`, or that of the phase.
  class Scope {
   public:
    Scope(PhaseTimer& timer, Phase phase, std::string_view name = "")
        : timer_(timer), outer_(timer.current_), record_(at::RecordScope::USER_SCOPE) {
      if (record_.isActive())
        record_.before(std::string(name.empty() ? kPhaseNames[static_cast<size_t>(phase)] : name));
      timer_.enter(phase);
    }
    ~Scope() { timer_.enter(outer_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseTimer& timer_;
    Phase outer_;
    at::RecordFunction record_;
  };

  // Seconds since the last call, by phase.
  Seconds take() {
    enter(current_);
    const Seconds result = seconds_;
    seconds_ = {};
    return result;
  }

 private:
  using Clock = std::chrono::steady_clock;
  void enter(Phase phase) {
    const Clock::time_point now = Clock::now();
    seconds_[static_cast<size_t>(current_)] += std::chrono::duration<double>(now - since_).count();
    current_ = phase;
    since_ = now;
  }

  Phase current_ = Phase::data;
  Clock::time_point since_ = Clock::now();
  Seconds seconds_{};
};

}  // namespace strata::trainer
