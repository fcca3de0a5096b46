// SPDX-License-Identifier: MIT
// AdamW over the shards that this rank holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/adamw/adamw.h"
#include "kernels/runtime/level.h"
#include "sharding/parameters/sharded_parameter_group.h"
#include "trainer/config/optimizer_config.h"

namespace strata::trainer {

using at::Tensor;

// Decay is decoupled and for matrices only: the layout places them first in each group, so a shard has at most two
// parts.
class Optimizer {
 public:
  // fp32, like the master shard of the group.
  struct Moments {
    Tensor first, second;
    Tensor average;  // of the weights over time; undefined: none is kept
  };

  Optimizer(const OptimizerConfig& config, kernels::Level level,
            const std::vector<sharding::ShardedParameterGroup*>& groups);

  // Updates masters, moments, averages and compute copies of all groups; nothing when scalars.skip says so.
  void step(const kernels::AdamwScalars& scalars);

  // The averages begin at the weights as they are now. The calls below do nothing when none are kept.
  void start_averages();
  // Weights and averages change places, in masters and compute copies: before an evaluation, and back after it.
  void exchange_averages();

  Moments& moments(size_t group) { return moments_[group]; }

 private:
  void update_averages(const kernels::AdamwScalars& scalars);

  OptimizerConfig config_;
  kernels::Level level_;
  std::vector<sharding::ShardedParameterGroup*> groups_;
  std::vector<Moments> moments_;
};

}  // namespace strata::trainer
