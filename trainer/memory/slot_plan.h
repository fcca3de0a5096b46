// SPDX-License-Identifier: MIT
// How many slots of which size and type the layers of a model share for full weights and full gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "modules/config/parameter_table.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

inline int64_t bytes_of(FloatType type) { return type == FloatType::float32 ? 4 : 2; }

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

// Full gradients of the group have a buffer of its own instead of slots.
bool keeps_full_gradient(const TrainerConfig& config, const modules::ParameterGroup& group);
// Gradients of the group are reduced once a step, instead of after each micro-batch.
bool reduces_once(const TrainerConfig& config, const modules::ParameterGroup& group);
// Of a rank's part of the gradient: as it was reduced, unless sums are kept in it.
FloatType gradient_type(const TrainerConfig& config, const modules::ParameterGroup& group);
// Of the group's sum over replicas, until the backward has ended; 0 where it is the gradient itself.
int64_t bytes_of_replica_sum(const TrainerConfig& config, const modules::ParameterGroup& group);

}  // namespace strata::trainer
