// SPDX-License-Identifier: MIT
// The hash of a model's weights: the same on any number of ranks, without gathering them.
#pragma once

#include <string>

#include "sharding/communication/communicator.h"
#include "trainer/model/sharded_model.h"

namespace strata::trainer {

// SHA-256 over the sorted parameters: name, shape and an order-independent sum over (element, bits of the fp32 master).
// Collective over `shard_group`; the same on all ranks.
std::string weights_sha256(const ShardedModel& model, sharding::Communicator& shard_group);

}  // namespace strata::trainer
