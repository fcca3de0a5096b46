// SPDX-License-Identifier: MIT
// The values of a run that a task reads, apart from its model and its data.
#pragma once

#include <cstdint>

#include "modules/config/module.h"
#include "trainer/config/precision_config.h"

namespace strata::trainer {

struct TaskSettings {
  uint64_t seed = 1;
  int64_t batch = 0;                    // samples per step, over all ranks
  modules::OpPlacement placement = {};  // ops that the run fuses, or leaves to the task
  PrecisionConfig precision = {};
};

}  // namespace strata::trainer
