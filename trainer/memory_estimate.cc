// SPDX-License-Identifier: MIT
#include "trainer/memory_estimate.h"

#include <algorithm>

#include "trainer/group_layout.h"

namespace strata::trainer {
namespace {

int64_t bytes_of(FloatType type) { return type == FloatType::float32 ? 4 : 2; }

struct Elements {
  int64_t all = 0, blocks = 0, largest_block = 0, outside = 0, block_count = 0;
};

Elements count(const std::vector<modules::ParameterGroup>& table, int64_t ranks) {
  Elements elements;
  for (const modules::ParameterGroup& group : table) {
    const int64_t padded = layout_of(group, ranks).elements();
    elements.all += padded;
    if (!group.is_layer) {
      elements.outside += padded;
      continue;
    }
    elements.blocks += padded;
    elements.largest_block = std::max(elements.largest_block, padded);
    ++elements.block_count;
  }
  return elements;
}

}  // namespace

std::vector<MemoryClass> memory_per_rank(const TrainerConfig& config,
                                         const std::vector<modules::ParameterGroup>& table) {
  const sharding::ShardingConfig& sharding = config.sharding;
  const int64_t shards = sharding.ranks_per_copy(config.run.ranks);
  const Elements elements = count(table, shards);
  const int64_t shard = elements.all / shards;
  std::vector<MemoryClass> classes = {{"master weights", 4 * shard}, {"moments", 8 * shard}, {"gradients", 4 * shard}};
  if (config.optimizer.moving_average > 0) classes.push_back({"moving average", 4 * shard});
  if (config.precision.compute != FloatType::float32) classes.push_back({"compute copy", 2 * shard});
  if (shards == 1) return classes;

  const int64_t compute = bytes_of(config.precision.compute), reduce = bytes_of(config.precision.reduce);
  const int64_t slots = std::min(sharding.prefetch + 1, elements.block_count);
  const int64_t block_weights =
      sharding.reshard_after_forward ? slots * elements.largest_block : elements.block_count * elements.largest_block;
  const int64_t block_gradients = sharding.accumulate == sharding::Accumulate::full
                                      ? elements.blocks
                                      : std::min<int64_t>(2, elements.block_count) * elements.largest_block;
  classes.push_back({"weight slots", compute * block_weights});
  classes.push_back({"gradient slots", reduce * block_gradients});
  classes.push_back({"weights outside of blocks, in full", compute * elements.outside});
  classes.push_back({"gradients outside of blocks, in full", reduce * elements.outside});
  return classes;
}

}  // namespace strata::trainer
