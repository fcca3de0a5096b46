// SPDX-License-Identifier: MIT
// What one rank allocates for parameters, gradients and optimizer, by class; activations come on top.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/parameter_table.h"
#include "trainer/trainer_config.h"

namespace strata::trainer {

struct MemoryClass {
  std::string name;
  int64_t bytes;
};

// With n elements in a group (padded) and S ranks that share one copy of the parameters: master 4 n / S, moments 8 n /
// S, gradients 4 n / S, a moving average, if there is one, 4 n / S and, unless compute is float32, a compute copy
// 2 n / S. If S > 1, besides: prefetch + 1 slots
// for the weights of a block (or every block, without reshard_after_forward), two slots for its gradients (or every
// block, with accumulate: full), and the groups outside of blocks in full, weights and gradients.
std::vector<MemoryClass> memory_per_rank(const TrainerConfig& config,
                                         const std::vector<modules::ParameterGroup>& table);

}  // namespace strata::trainer
