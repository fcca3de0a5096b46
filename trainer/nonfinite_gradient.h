// SPDX-License-Identifier: MIT
// Names the gradient that is not finite: its tensor, group and rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/errors.h"
#include "sharding/parameters/sharded_parameter_group.h"

namespace strata::trainer {

// "rank 1: 3 of 576 gradients of blocks.0.attention.output.weight (group blocks.0)": the first tensor of the group
// whose gradient on this rank is not finite, before ranks are summed; empty: there is none.
std::string first_nonfinite(const sharding::ShardedParameterGroup& group, int rank);

// Ends the run (numerics); `found` are the sentences of the ranks, empty where there is none.
Error nonfinite_error(int64_t step, const std::vector<std::string>& found);

}  // namespace strata::trainer
