// SPDX-License-Identifier: MIT
// The two directions of hybrid sharding: a group that shares one copy of the parameters, and one that holds the same
// part.
#pragma once

#include <memory>
#include <string_view>

#include "sharding/communicator.h"

namespace strata::sharding {

enum class ShardingStrategy {
  none,    // every rank holds everything
  full,    // all ranks share one copy
  hybrid,  // `shard_ranks` consecutive ranks share one copy; copies are kept equal by all-reduce
};

std::string_view name(ShardingStrategy strategy);

struct DeviceMesh {
  std::unique_ptr<Communicator> shard;      // all_gather and reduce_scatter
  std::unique_ptr<Communicator> replicate;  // all_reduce of shards
};

// Collective over all ranks of `all`. `shard_ranks` counts for hybrid only. Throws (configuration) when it does not
// divide.
DeviceMesh make_device_mesh(Communicator& all, ShardingStrategy strategy, int shard_ranks);

}  // namespace strata::sharding
