// SPDX-License-Identifier: MIT
// What a task reads of a run besides its model and its data.
#pragma once

#include <cstdint>

#include "modules/config/module_table.h"
#include "trainer/config/precision_config.h"

namespace strata::trainer {

struct TaskSettings {
  uint64_t seed = 1;
  int64_t ranks = 1;
  int64_t batch = 0;            // samples of a step, over all ranks
  int64_t micro_batch = 0;      // samples of a rank and forward
  modules::ModuleUse use = {};  // ops that the run fuses or leaves to the task
  PrecisionConfig precision = {};
};

}  // namespace strata::trainer
