// SPDX-License-Identifier: MIT
// The dimensions of a run: ranks that share one copy of the parameters, ranks that hold the same shard, and ranks that
// share sequences.
#pragma once

#include <memory>

#include "sharding/communication/communicator.h"
#include "sharding/config/sharding_config.h"

namespace strata::sharding {

struct DeviceMesh {
  std::unique_ptr<Communicator> shard;      // all_gather and reduce_scatter
  std::unique_ptr<Communicator> replicate;  // all_reduce of shards
  std::unique_ptr<Communicator> sequence;   // neighbors that share each sequence; null: none do
  Communicator* world = nullptr;            // all ranks: the communicator that was split; it outlives the mesh
};

// This is a collective over all ranks of `world`. Throws (configuration) if the number of ranks is not a multiple of
// shard_ranks, or of `sequence`.
DeviceMesh make_device_mesh(Communicator& world, const ShardingConfig& config);

}  // namespace strata::sharding
