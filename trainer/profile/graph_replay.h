// SPDX-License-Identifier: MIT
// Names the work of a CUDA graph's replay, which is a single launch, after an eager step.
#pragma once

#include <vector>

#include "trainer/profile/recorded_steps.h"

namespace strata::trainer::profile {

// Adds the work of a replay to `step`, with the origins of the same work in `eager`, which is in launch order.
// Differences are appended to step.difference.
void name_replay(const std::vector<Activity>& eager, std::vector<Activity> replay, RecordedStep& step);

}  // namespace strata::trainer::profile
