// SPDX-License-Identifier: MIT
// Names the work of a graph's replay, which the host launches all at once, by an eager step.
#pragma once

#include <vector>

#include "trainer/profile/steps.h"

namespace strata::trainer::profile {

// Adds the work of a replay to `step`, with the origins that the same work has in `eager`, which is in the order of its
// launches; step.difference gets what does not fit.
void name_replay(const std::vector<Activity>& eager, std::vector<Activity> replay, Step& step);

}  // namespace strata::trainer::profile
