// SPDX-License-Identifier: MIT
#include "trainer/layout/slot_counts.h"

#include <algorithm>

#include "trainer/layout/coding.h"
#include "trainer/layout/group_layout.h"

namespace strata::trainer {

using sharding::MicroBatchSum;

namespace {

// Adds a layer of `elements` elements to the pool of its type.
void add(std::vector<Slots>& pools, FloatType type, int64_t elements) {
  auto pool = std::find_if(pools.begin(), pools.end(), [&](const Slots& slots) { return slots.type == type; });
  if (pool == pools.end()) pool = pools.insert(pools.end(), Slots{type, 0, 0});
  ++pool->count;
  pool->elements = std::max(pool->elements, elements);
}

}  // namespace

SlotCounts slot_counts(const BufferRules& rules, const std::vector<modules::ParameterGroup>& table) {
  const sharding::ShardingConfig& sharding = rules.sharding;
  const int64_t shards = rules.shards();
  SlotCounts counts;
  if (shards == 1) return counts;
  for (const modules::ParameterGroup& group : table) {
    if (group.role != modules::Role::layer) continue;
    const int64_t elements = layout_of(group, shards).elements();
    const FloatType compute = rules.precision.compute_of(group.name);
    const auto coded = coded_layout(rules, group);
    add(counts.weights, compute, coded ? coded->slot_elements(bytes_of(compute)) : elements);
    if (!keeps_full_gradient(sharding, group)) add(counts.gradients, rules.precision.reduce_of(group.name), elements);
  }
  if (sharding.reshard_after_forward) {
    for (Slots& slots : counts.weights) slots.count = std::min(slots.count, sharding.prefetch + 1);
  }
  for (Slots& slots : counts.gradients) slots.count = std::min<int64_t>(slots.count, 2);
  return counts;
}

bool keeps_full_gradient(const sharding::ShardingConfig& sharding, const modules::ParameterGroup& group) {
  return group.role != modules::Role::layer || sharding.accumulate == sharding::Accumulate::full;
}

MicroBatchSum micro_batch_sum(const BufferRules& rules, const modules::ParameterGroup& group) {
  if (rules.micro_batches == 1) return MicroBatchSum::none;
  if (rules.sharding.accumulate == sharding::Accumulate::full) return MicroBatchSum::full_gradient;
  // A group outside of layers keeps its full gradients anyway. If they are fp32, they take the sum without more memory.
  // Otherwise the sum in the shard takes less: 2 n / S bytes instead of 2 n + 2 n / S.
  const bool free =
      keeps_full_gradient(rules.sharding, group) && rules.precision.reduce_of(group.name) == FloatType::float32;
  return free ? MicroBatchSum::full_gradient : MicroBatchSum::gradient_shard;
}

FloatType full_gradient_type(const BufferRules& rules, const modules::ParameterGroup& group) {
  const bool sums = micro_batch_sum(rules, group) == MicroBatchSum::full_gradient;
  return sums ? FloatType::float32 : rules.precision.reduce_of(group.name);
}

FloatType gradient_type(const BufferRules& rules, const modules::ParameterGroup& group) {
  const bool reduced = rules.shards() > 1 && micro_batch_sum(rules, group) == MicroBatchSum::none;
  return reduced ? rules.precision.reduce_of(group.name) : FloatType::float32;
}

}  // namespace strata::trainer
