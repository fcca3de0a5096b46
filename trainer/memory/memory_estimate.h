// SPDX-License-Identifier: MIT
// What one rank allocates for parameters, gradients and optimizer, by class; activations come on top.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/parameter_group.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

struct MemoryClass {
  std::string name;
  int64_t bytes;
};

// With n elements in a group (padded) and S ranks that share one copy of the parameters: master 4 n / S, moments 8 n /
// S, gradients 4 n / S (2 n / S if one micro-batch a step is reduced in bfloat16), a moving average, if there is one, 4
// n / S and, unless the group computes in float32, a compute copy 2 n / S. If S > 1, besides: for the blocks of each
// type, prefetch + 1 slots for weights (or one for every block, without reshard_after_forward) and two for gradients
// (or a buffer for every block, with accumulate: full), and the groups outside of blocks in full, weights and
// gradients. Full gradients have the reduce type; with accumulate: full and several micro-batches they are float32.
std::vector<MemoryClass> memory_per_rank(const TrainerConfig& config,
                                         const std::vector<modules::ParameterGroup>& table);

}  // namespace strata::trainer
