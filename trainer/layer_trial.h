// SPDX-License-Identifier: MIT
// Measures the cost of layers with each kind of gradient checkpointing. It uses a model of the run and throws it away
// afterwards.
#pragma once

#include "sharding/bootstrap.h"
#include "trainer/config/trainer_config.h"
#include "trainer/memory/layer_costs.h"

namespace strata::trainer {

// Runs a few micro-batches with full recomputation in all layers except one of each kind (same levels and precision),
// which is measured. Bytes come from the allocator, times from the backward. No weight changes. Each cost is the
// maximum over ranks, so it is the same on all ranks. Collective.
StepCosts measure_layers(const TrainerConfig& config, sharding::Bootstrap& bootstrap);

}  // namespace strata::trainer
