// SPDX-License-Identifier: MIT
// AdamW over the shards that this rank holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/adamw/adamw.h"
#include "kernels/level.h"
#include "sharding/sharded_parameter_group.h"
#include "trainer/trainer_config.h"

namespace strata::trainer {

using at::Tensor;

// Decay is decoupled and for matrices only: the layout places them first in each group, so a shard has at most two
// parts.
class Optimizer {
 public:
  struct Moments {
    Tensor first, second;  // fp32, like the master shard of the group
  };

  Optimizer(const OptimizerConfig& config, kernels::Level level,
            const std::vector<sharding::ShardedParameterGroup*>& groups);

  // Updates masters, moments and compute copies of all groups; nothing when scalars.skip says so.
  void step(const kernels::AdamwScalars& scalars);

  Moments& moments(size_t group) { return moments_[group]; }
  int64_t bytes() const;

 private:
  OptimizerConfig config_;
  kernels::Level level_;
  std::vector<sharding::ShardedParameterGroup*> groups_;
  std::vector<Moments> moments_;
};

}  // namespace strata::trainer
