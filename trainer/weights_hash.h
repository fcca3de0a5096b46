// SPDX-License-Identifier: MIT
// The hash of a model's weights. It is the same on any number of ranks, and the weights are not gathered for it.
#pragma once

#include <string>

#include "sharding/communication/communicator.h"
#include "trainer/model/sharded_model.h"

namespace strata::trainer {

// Returns SHA-256 over the sorted parameters: name, shape and an order-independent sum over (element, bits of the fp32
// master). Collective over `shard_group`; the result is the same on all ranks.
std::string weights_sha256(const ShardedModel& model, sharding::Communicator& shard_group);

}  // namespace strata::trainer
