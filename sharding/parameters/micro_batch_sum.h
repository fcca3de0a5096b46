// SPDX-License-Identifier: MIT
// Where the gradients of a step's micro-batches are summed: always in fp32, whatever the dtype of the reduction is.
#pragma once

namespace strata::sharding {

// none: a step has one micro-batch. gradient_shard: each micro-batch is reduced and added to the gradient shard.
// full_gradient: the full gradients are fp32 and are reduced once per step, without a cast.
enum class MicroBatchSum { none, gradient_shard, full_gradient };

}  // namespace strata::sharding
