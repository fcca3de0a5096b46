// SPDX-License-Identifier: MIT
// Times ops in turn, as the layers of a step call them. Between two calls of an op all other ops run, so caches and the
// allocator are in the state that a step leaves.
#pragma once

#include <vector>

#include "kernels/proof/workload.h"
#include "trainer/prediction/step_calls.h"

namespace strata::tools {

// Seconds of one call in each round; empty if the op has no such pass.
struct RoundTimes {
  std::vector<double> forward, backward;
};

struct TimedOp {
  trainer::OpCalls calls;
  kernels::Workload workload;
  RoundTimes times = {};
};

// Runs rounds of forward, backward and update for about `seconds`, at least 7 rounds, and fills `times`.
void time_rounds(std::vector<TimedOp>& ops, double seconds);

}  // namespace strata::tools
