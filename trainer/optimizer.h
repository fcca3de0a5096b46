// SPDX-License-Identifier: MIT
// The optimizer of the shards of this rank, and the moving averages of their weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/runtime/level.h"
#include "kernels/runtime/weight_update.h"
#include "sharding/parameters/sharded_parameter_group.h"
#include "trainer/config/optimizer_config.h"

namespace strata::trainer {

using at::Tensor;

// Weight decay is decoupled and applies only to parameters of two or more dimensions. The layout places them first in
// each group, so a shard has one or two parts (FlatLayout::ShardPart). An optimizer is an update() of one part.
class Optimizer {
 public:
  // The optimizer keeps these for the shard of one group: fp32 tensors of the shape of its master. A tensor that this
  // type of optimizer does not keep is undefined.
  struct ShardState {
    Tensor first_moment, second_moment;
    Tensor average;  // moving average of the weights; undefined: optimizer.moving_average is 0
  };

  Optimizer(const OptimizerConfig& config, kernels::Level level,
            const std::vector<sharding::ShardedParameterGroup*>& groups);

  // Updates masters, moments, averages and compute copies of all groups. Does nothing if scalars.skip is 1.
  void step(const kernels::UpdateScalars& scalars);

  // Starts the averages at the present weights. The calls below do nothing if no averages are kept.
  void start_averages();
  // Swaps weights and averages in masters and compute copies: before an evaluation, and back after it.
  void exchange_averages();

  const ShardState& state_of(size_t group) const { return states_[group]; }
  // Returns what this rank keeps from step to step: masters, moments and averages of all groups.
  std::vector<Tensor> state() const;

 private:
  // Views of a part of a shard, all [n]. Tensors that are not kept are undefined.
  struct PartViews {
    Tensor master, first_moment, second_moment, gradient, compute_copy;
    double weight_decay;
  };
  PartViews views_of(size_t group, const sharding::FlatLayout::ShardPart& part);
  // Updates master, moments and compute copy of a part. There is one function for each type of optimizer.
  void update(const AdamW& adamw, PartViews& part, const kernels::UpdateScalars& scalars) const;
  void update_averages(const kernels::UpdateScalars& scalars);

  OptimizerConfig config_;
  kernels::Level level_;
  std::vector<sharding::ShardedParameterGroup*> groups_;
  std::vector<ShardState> states_;  // state of each group
};

}  // namespace strata::trainer
