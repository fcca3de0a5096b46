// SPDX-License-Identifier: MIT
// Where the time of a step goes: wall-clock seconds of this rank by phase.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>

namespace strata::trainer {

// communication: the part that the computation had to wait for; it is taken out of the phase in which it happened.
enum class Phase { data, forward, backward, communication, optimizer, evaluation, checkpoint };
inline constexpr std::array<const char*, 7> kPhaseNames = {"data",      "forward",    "backward",  "communication",
                                                           "optimizer", "evaluation", "checkpoint"};

class PhaseTimer {
 public:
  using Seconds = std::array<double, kPhaseNames.size()>;

  // Time from now on belongs to `phase`, until the scope ends; then again to the phase around it.
  class Scope {
   public:
    Scope(PhaseTimer& timer, Phase phase) : timer_(timer), outer_(timer.current_) { timer_.enter(phase); }
    ~Scope() { timer_.enter(outer_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    PhaseTimer& timer_;
    Phase outer_;
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
