// SPDX-License-Identifier: MIT
// The optimizer of the shards of this rank, and the moving averages of their weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/adamw/adamw.h"
#include "kernels/runtime/level.h"
#include "sharding/parameters/sharded_parameter_group.h"
#include "trainer/config/optimizer_config.h"

namespace strata::trainer {

using at::Tensor;

// Weight decay is decoupled and applies only to parameters of two or more dimensions. The layout places them first in
// each group, so a shard has at most two parts: one with decay and one without.
class Optimizer {
 public:
  // The moments are fp32, like the group's master shard.
  struct Moments {
    Tensor first, second;  // second is undefined if the optimizer has one moment
    Tensor average;        // moving average of the weights; undefined: none is kept
  };

  Optimizer(const OptimizerConfig& config, kernels::Level level,
            const std::vector<sharding::ShardedParameterGroup*>& groups);

  // Updates masters, moments, averages and compute copies of all groups. Does nothing if scalars.skip is 1.
  void step(const kernels::AdamwScalars& scalars);

  // Starts the averages at the present weights. The calls below do nothing if no averages are kept.
  void start_averages();
  // Swaps weights and averages in masters and compute copies: before an evaluation, and back after it.
  void exchange_averages();

  Moments& moments(size_t group) { return moments_[group]; }
  // Returns what this rank keeps from step to step: masters, moments and averages of all groups.
  std::vector<Tensor> state() const;

 private:
  // Updates master, moments and compute copy of group `index` by this type of optimizer.
  void update(const AdamW& adamw, size_t index, const kernels::AdamwScalars& scalars);
  void update_averages(const kernels::AdamwScalars& scalars);

  OptimizerConfig config_;
  kernels::Level level_;
  std::vector<sharding::ShardedParameterGroup*> groups_;
  std::vector<Moments> moments_;
};

}  // namespace strata::trainer
