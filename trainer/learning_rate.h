// SPDX-License-Identifier: MIT
// The learning rate of a step.
#pragma once

#include <cstdint>

#include "trainer/config/schedule_config.h"

namespace strata::trainer {

// For step 1 ... steps: rises to the peak, which is reached at step `warmup`, then follows the schedule; the last step
// has `final` times the peak.
double learning_rate(double peak, const ScheduleConfig& schedule, int64_t steps, int64_t step);

}  // namespace strata::trainer
