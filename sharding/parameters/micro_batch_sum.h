// SPDX-License-Identifier: MIT
// Where the gradients of a step's micro-batches are summed: always in fp32, whatever the dtype of the reduction is.
#pragma once

namespace strata::sharding {

// none: a step has one micro-batch. in_shard: each micro-batch is reduced and added to the gradient shard. in_full: the
// full gradients are fp32 and are reduced once per step, without a cast.
enum class MicroBatchSum { none, in_shard, in_full };

}  // namespace strata::sharding
