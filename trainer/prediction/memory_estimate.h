// SPDX-License-Identifier: MIT
// The memory of one rank for parameters, gradients and optimizer, by class. Activations are not in it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "modules/config/module.h"
#include "modules/config/parameter_group.h"
#include "trainer/config/optimizer_config.h"
#include "trainer/layout/slot_counts.h"

namespace strata::trainer {

struct MemoryClass {
  std::string name;
  int64_t bytes;
  bool lasts = true;  // the bytes are the same during a whole step
};

// A group has n elements (padded), and S ranks share one copy of the parameters. Bytes of a group on one rank:
//   master parameters 4 n / S, and 4 n / S for each moment of the optimizer;
//   gradients 4 n / S, or 2 n / S if S > 1 and a step has one micro-batch, which is reduced in 16 bits;
//   a moving average, if there is one, 4 n / S;
//   a compute copy 2 n / S, unless the group computes in float32.
// If S > 1, slots hold complete parameters and gradients. For the blocks of each type there are
//   prefetch + 1 slots for weights, or one for every block without reshard_after_forward;
//   two slots for gradients, or one buffer for every block with accumulate: full.
// A slot for weights that travel as codes (coding.h) has a byte for each element of the group, and the others' values.
// The groups outside of blocks have complete weights and gradients of their own. Complete gradients have the reduce
// type; with accumulate: full and several micro-batches they are float32.
// Each of d modules with delayed scales has three histories (trainer/model/amax_history.h). Histories of h steps take
// 12 d (h + 2) + 4 h bytes, on any number of ranks.
std::vector<MemoryClass> memory_per_rank(const BufferRules& rules, const OptimizerConfig& optimizer,
                                         const std::vector<modules::ParameterGroup>& table,
                                         const std::vector<modules::DeclaredModule>& modules);

// Bytes of host memory that a save takes at most on a rank of the first replica, for its copy of master weights,
// moments, moving average and, on rank 0, histories of delayed scales of `modules`. It is pinned if the rank computes
// on a GPU. Other replicas save nothing.
int64_t save_memory(const BufferRules& rules, const OptimizerConfig& optimizer,
                    const std::vector<modules::ParameterGroup>& table,
                    const std::vector<modules::DeclaredModule>& modules);

}  // namespace strata::trainer
