// SPDX-License-Identifier: MIT
// Measures the wall-clock seconds of this rank in each phase of a step.
#pragma once

#include <ATen/record_function.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace strata::trainer {

// communication is the time in which computation waited for it; this time is not counted in the phase in which it
// occurred. report is the time in which ranks write their ledgers and rank 0 writes metrics.
enum class Phase { data, forward, backward, communication, optimizer, evaluation, checkpoint, report };
inline constexpr std::array<const char*, 8> kPhaseNames = {"data",      "forward",    "backward",   "communication",
                                                           "optimizer", "evaluation", "checkpoint", "report"};

class PhaseTimer {
 public:
  using Seconds = std::array<double, kPhaseNames.size()>;

  // Counts time for `phase` until the end of the scope, then again for the enclosing phase. The profiler sees the scope
  // as `name`, or as the name of the phase.
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

  // Returns the seconds since the last call, by phase.
  Seconds take() {
    const Seconds now = total();
    Seconds result;
    for (size_t i = 0; i < now.size(); ++i) result[i] = now[i] - taken_[i];
    taken_ = now;
    return result;
  }
  // Returns the seconds since the construction, by phase.
  Seconds total() {
    enter(current_);
    return seconds_;
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
  Seconds seconds_{}, taken_{};
};

}  // namespace strata::trainer
