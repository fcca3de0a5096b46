// SPDX-License-Identifier: MIT
// How many slots of which size and type the layers of a model share for full weights and full gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "modules/parameter_table.h"
#include "trainer/trainer_config.h"

namespace strata::trainer {

// One pool: slots of the largest layer among those of its type.
struct Slots {
  FloatType type = FloatType::float32;
  int64_t count = 0, elements = 0;
};

// Nothing where every rank holds all parameters; no gradients where each group keeps a buffer of its own.
struct SlotPlan {
  std::vector<Slots> weights, gradients;
};
SlotPlan slot_plan(const TrainerConfig& config, const std::vector<modules::ParameterGroup>& table);

}  // namespace strata::trainer
