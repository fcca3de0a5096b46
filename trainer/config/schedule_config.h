// SPDX-License-Identifier: MIT
// The `schedule:` section: the learning rate over the steps.
#pragma once

#include <cstdint>
#include <limits>
#include <variant>

#include "configs/limits.h"

namespace strata::trainer {

// last_step_independent_of_total(steps) of a schedule is the last step whose rate is the same with any number of steps,
// 0 if there is none. A run that was saved up to there may be resumed with another number of steps.

// A schedule whose rate falls until the last step.
struct DecayingSchedule {
  double final = 0;

  int64_t last_step_independent_of_total(int64_t) const { return 0; }

  template <class Fields>
  void describe(Fields& fields) {
    fields.add("final", final, "learning rate of the last step, as a share of the peak", configs::kShare);
  }
};

struct CosineSchedule : DecayingSchedule {
  explicit CosineSchedule(double share = 0.1) : DecayingSchedule{share} {}
};

struct LinearSchedule : DecayingSchedule {
  explicit LinearSchedule(double share = 0) : DecayingSchedule{share} {}
};

// Warmup, stable, decay: the rate stays at the peak until the last `decay` steps.
struct WsdSchedule : DecayingSchedule {
  int64_t decay = 0;

  int64_t last_step_independent_of_total(int64_t steps) const { return steps - decay; }

  template <class Fields>
  void describe(Fields& fields) {
    DecayingSchedule::describe(fields);
    fields.require("decay", decay, "steps of linear decay at the end", configs::between(1, 1e12), "steps");
  }
};

struct ConstantSchedule {
  int64_t last_step_independent_of_total(int64_t) const { return std::numeric_limits<int64_t>::max(); }

  template <class Fields>
  void describe(Fields&) {}
};

struct ScheduleConfig {
  std::variant<CosineSchedule, LinearSchedule, WsdSchedule, ConstantSchedule> type = {};
  int64_t warmup = 0;

  template <class Fields>
  void describe(Fields& fields) {
    fields.choose("type", type, {"cosine", "linear", "wsd", "constant"},
                  "schedule of the learning rate; wsd: warmup, stable, decay");
    fields.add("warmup", warmup, "steps of linear warmup: step s of them has s / warmup of the peak; 0: no warmup",
               configs::kNumberOfSteps, "steps");
  }
};

}  // namespace strata::trainer
