// SPDX-License-Identifier: MIT
// The two directions of hybrid sharding: a group that shares one copy of the parameters, and one that holds the same
// part.
#pragma once

#include <memory>

#include "sharding/communication/communicator.h"
#include "sharding/config/sharding_config.h"

namespace strata::sharding {

struct DeviceMesh {
  std::unique_ptr<Communicator> shard;      // all_gather and reduce_scatter
  std::unique_ptr<Communicator> replicate;  // all_reduce of shards
  Communicator* all = nullptr;              // that the mesh was made of, and which outlives it
};

// Collective over all ranks of `all`. Throws (configuration) when hybrid groups of shard_ranks do not divide the ranks.
DeviceMesh make_device_mesh(Communicator& all, const ShardingConfig& config);

}  // namespace strata::sharding
