// SPDX-License-Identifier: MIT
#include "trainer/step/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace strata::trainer {
namespace {

// The share of the peak, where `progress` goes from 0 at the end of the warmup to 1 at the last step.
struct Share {
  double progress;
  double steps_after_warmup;

  double operator()(const CosineSchedule& schedule) const {
    return schedule.final + (1 - schedule.final) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
  double operator()(const LinearSchedule& schedule) const { return 1 - (1 - schedule.final) * progress; }
  double operator()(const WsdSchedule& schedule) const {
    const double steps_left = (1 - progress) * steps_after_warmup;
    const double decayed = 1 - std::min(1.0, steps_left / static_cast<double>(schedule.decay));
    return 1 - (1 - schedule.final) * decayed;
  }
  double operator()(const ConstantSchedule&) const { return 1; }
};

}  // namespace

double learning_rate(double peak, const ScheduleConfig& schedule, int64_t steps, int64_t step) {
  if (step < schedule.warmup) return peak * static_cast<double>(step) / static_cast<double>(schedule.warmup);
  const double after_warmup = static_cast<double>(std::max<int64_t>(1, steps - schedule.warmup));
  const double progress = std::min(1.0, static_cast<double>(step - schedule.warmup) / after_warmup);
  return peak * std::visit(Share{progress, after_warmup}, schedule.type);
}

}  // namespace strata::trainer
