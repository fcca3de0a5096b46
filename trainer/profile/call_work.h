// SPDX-License-Identifier: MIT
// What one call of each op of a configuration must read, write and compute at least.
#pragma once

#include "trainer/profile/summary.h"
#include "trainer/trainer_config.h"

namespace strata::trainer::profile {

WorkOfCall work_of_calls(const TrainerConfig& config);

}  // namespace strata::trainer::profile
