// SPDX-License-Identifier: MIT
#include "sharding/parameters/device_mesh.h"

#include <string>

#include "base/errors.h"

namespace strata::sharding {

DeviceMesh make_device_mesh(Communicator& world, const ShardingConfig& config) {
  const int ranks = world.size();
  const int shard_ranks = static_cast<int>(config.ranks_per_copy(ranks));
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
  const int sequence_ranks = static_cast<int>(config.sequence);
  if (ranks % sequence_ranks != 0) {
    throw Error(ExitCode::configuration, "sharding.sequence: " + std::to_string(ranks) +
                                             " ranks do not divide into groups of " + std::to_string(sequence_ranks));
  }
  DeviceMesh mesh;
  mesh.world = &world;
  mesh.shard = world.split(world.rank() / shard_ranks);
  mesh.replicate = world.split(world.rank() % shard_ranks);
  if (sequence_ranks > 1) mesh.sequence = world.split(world.rank() / sequence_ranks);
  return mesh;
}

}  // namespace strata::sharding
