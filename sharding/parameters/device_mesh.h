// SPDX-License-Identifier: MIT
// The two dimensions of hybrid sharding: ranks that share one copy of the parameters, and ranks that hold the same
// shard.
#pragma once

#include <memory>

#include "sharding/communication/communicator.h"
#include "sharding/config/sharding_config.h"

namespace strata::sharding {

struct DeviceMesh {
  std::unique_ptr<Communicator> shard;      // all_gather and reduce_scatter
  std::unique_ptr<Communicator> replicate;  // all_reduce of shards
  Communicator* all = nullptr;              // the communicator that was split; it outlives the mesh
};

// This is a collective over all ranks of `all`. Throws (configuration) if the number of ranks is not a multiple of
// shard_ranks.
DeviceMesh make_device_mesh(Communicator& all, const ShardingConfig& config);

}  // namespace strata::sharding
