// SPDX-License-Identifier: MIT
// What the calls of each op of a configuration must read, write and compute at least.
#pragma once

#include "trainer/profile/summary.h"
#include "trainer/trainer_config.h"

namespace strata::trainer::profile {

WorkOfCalls work_of_calls(const TrainerConfig& config);

}  // namespace strata::trainer::profile
