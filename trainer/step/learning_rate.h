// SPDX-License-Identifier: MIT
// The learning rate of a step.
#pragma once

#include <cstdint>

#include "trainer/config/schedule_config.h"

namespace strata::trainer {

// Returns the learning rate of step 1 ... steps. It rises linearly and reaches the peak at step `warmup`, then follows
// the schedule. The last step has `final` times the peak; a constant schedule has no `final`.
double learning_rate(double peak, const ScheduleConfig& schedule, int64_t steps, int64_t step);

}  // namespace strata::trainer
