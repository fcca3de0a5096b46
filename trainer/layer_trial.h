// SPDX-License-Identifier: MIT
// Measures what layers cost in each way of gradient checkpointing, on a model of the run that is thrown away
// afterwards.
#pragma once

#include "sharding/bootstrap.h"
#include "trainer/config/trainer_config.h"
#include "trainer/memory/layer_costs.h"

namespace strata::trainer {

// Collective. A few micro-batches in which all layers compute all again, but one of each kind (with the same levels and
// precision), which is measured; bytes by the allocator, times of its backward. No weight moves: nothing of the run
// follows from it but the costs, which are the same on all ranks: those of the rank that each is the most on.
StepCosts measure_layers(const TrainerConfig& config, sharding::Bootstrap& bootstrap);

}  // namespace strata::trainer
