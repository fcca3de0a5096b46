// SPDX-License-Identifier: MIT
// Names a gradient that is not finite: its tensor, group and rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/errors.h"
#include "sharding/parameters/sharded_parameter_group.h"
#include "trainer/config/precision_config.h"

namespace strata::trainer {

// Returns the first tensor of the group whose gradient on this rank is not finite, before ranks are summed; empty if
// there is none. Example: "rank 1: 3 of 576 gradients of blocks.0.attention.output.weight (group blocks.0)".
std::string first_nonfinite(const sharding::ShardedParameterGroup& group, int rank);

// The same for the gradients that this rank holds after all ranks were summed in `type`, which the sentence ends with:
// "(group blocks.0), summed in float16".
std::string first_nonfinite_sum(sharding::ShardedParameterGroup& group, int rank, FloatType type);

// The findings of a second run of a step that was not finite.
struct NonfiniteStep {
  int64_t step = 0;
  float loss = 0, gradient_norm = 0;
  // The sentences of first_nonfinite and first_nonfinite_sum of each rank, empty if it found nothing.
  std::vector<std::string> rank_findings = {}, sum_findings = {};
  bool after_rollback = false;  // the step was not finite before, and the run went back because of it
};

// Returns the error (numerics) that ends the run.
Error nonfinite_error(const NonfiniteStep& step, const PrecisionConfig& precision);

// Returns the error (numerics) of a run whose last `skips` updates were all skipped, until `step`.
Error skipped_too_often_error(int64_t step, int64_t skips);

}  // namespace strata::trainer
