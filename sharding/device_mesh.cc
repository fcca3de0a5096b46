// SPDX-License-Identifier: MIT
#include "sharding/device_mesh.h"

#include <string>

#include "configs/errors.h"

namespace strata::sharding {

std::string_view name(ShardingStrategy strategy) {
  switch (strategy) {
    case ShardingStrategy::none:
      return "none";
    case ShardingStrategy::full:
      return "full";
    case ShardingStrategy::hybrid:
      return "hybrid";
  }
  throw Error(ExitCode::internal, "an unknown sharding strategy");
}

DeviceMesh make_device_mesh(Communicator& all, ShardingStrategy strategy, int shard_ranks) {
  const int ranks = all.size();
  if (strategy == ShardingStrategy::none) shard_ranks = 1;
  if (strategy == ShardingStrategy::full) shard_ranks = ranks;
  if (shard_ranks < 1 || ranks % shard_ranks != 0) {
    const std::string sum = shard_ranks < 1
                                ? ""
                                : ": " + std::to_string(ranks) + " = " + std::to_string(ranks / shard_ranks) + " x " +
                                      std::to_string(shard_ranks) + " + " + std::to_string(ranks % shard_ranks);
    throw Error(ExitCode::configuration, "hybrid sharding: " + std::to_string(ranks) +
                                             " ranks do not divide into groups of " + std::to_string(shard_ranks) +
                                             sum + "; choose shard_ranks among the divisors of " +
                                             std::to_string(ranks));
  }
  DeviceMesh mesh;
  mesh.shard = all.split(all.rank() / shard_ranks);
  mesh.replicate = all.split(all.rank() % shard_ranks);
  return mesh;
}

}  // namespace strata::sharding
