// SPDX-License-Identifier: MIT
// Counts the slots, by size and type, that the layers of a model share for full weights and full gradients.
#pragma once

#include <cstdint>
#include <vector>

#include "modules/config/parameter_group.h"
#include "sharding/parameters/micro_batch_sum.h"
#include "trainer/config/trainer_config.h"

namespace strata::trainer {

// The settings of a run that decide how its parameters and gradients are kept.
struct BufferRules {
  sharding::ShardingConfig sharding;
  PrecisionConfig precision;
  int64_t ranks = 1;
  int64_t micro_batches = 1;  // micro-batches of a step on a rank

  int64_t shards() const { return sharding.ranks_per_copy(ranks); }  // of one copy of the parameters
};
inline BufferRules buffer_rules(const TrainerConfig& config) {
  return {config.sharding, config.precision, config.run.ranks, config.micro_batches()};
}

// One pool: its slots have the size of the largest layer of its type. A layer whose weights travel as codes needs fewer
// elements.
struct Slots {
  FloatType type = FloatType::float32;
  int64_t count = 0, elements = 0;
};

// Empty if every rank holds all parameters. `gradients` is empty if each group keeps a gradient buffer of its own.
struct SlotCounts {
  std::vector<Slots> weights, gradients;
};
SlotCounts slot_counts(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table);

// True if the full gradients of the group have a buffer of their own instead of slots.
bool keeps_full_gradient(const sharding::ShardingConfig& sharding, const modules::ParameterGroup& group);
sharding::MicroBatchSum micro_batch_sum(const BufferRules& rules, const modules::ParameterGroup& group);
// Type of full gradients: the reduce type, or float32 where micro-batches are summed in them.
FloatType full_gradient_type(const BufferRules& rules, const modules::ParameterGroup& group);
// Type of the gradient shard: the reduce type if a step has one micro-batch and S > 1, otherwise float32.
FloatType gradient_type(const BufferRules& rules, const modules::ParameterGroup& group);

}  // namespace strata::trainer
