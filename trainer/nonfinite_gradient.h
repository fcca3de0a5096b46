// SPDX-License-Identifier: MIT
// Names a gradient that is not finite: its tensor, group and rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/errors.h"
#include "sharding/parameters/sharded_parameter_group.h"

namespace strata::trainer {

// Returns the first tensor of the group whose gradient on this rank is not finite, before ranks are summed; empty if
// there is none. Example: "rank 1: 3 of 576 gradients of blocks.0.attention.output.weight (group blocks.0)".
std::string first_nonfinite(const sharding::ShardedParameterGroup& group, int rank);

// Returns the error (numerics) that ends the run. `loss` is that of the step when it was run again. `found` holds the
// sentence of each rank, empty if it found nothing. `after_rollback`: the step was not finite before, and the run went
// back because of it. `in_float16`: some groups compute in float16.
Error nonfinite_error(int64_t step, float loss, const std::vector<std::string>& found, bool after_rollback,
                      bool in_float16);

// Returns the error (numerics) of a run whose last `skips` updates were all skipped, until `step`.
Error skipped_too_often_error(int64_t step, int64_t skips);

}  // namespace strata::trainer
