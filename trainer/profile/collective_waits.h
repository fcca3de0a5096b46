// SPDX-License-Identifier: MIT
// The time of collectives divided into transfer and wait, and who was waited for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/profile/steps.h"

namespace strata::trainer::profile {

// The layer, the nanoseconds and the op of each collective of the steps on this rank, a line for each. Gathers by copy
// engines are not among them: they wait outside of their copies.
std::string collective_times(const std::vector<Step>& steps);

struct RankWaits {
  int64_t transfer = 0;  // the least that any rank spent in each collective: that one did not wait
  int64_t wait = 0;      // this rank's time beyond that
  int64_t last = 0;      // collectives that this rank was the last to reach
  int64_t caused = 0;    // the wait of all other ranks in those
};

// A collective ends everywhere at once: whoever spends the least time in it came last. All ranks must take part in all
// of them. Only those of one op and layer are compared, in the order of each rank: gathers and reductions may have a
// stream each, and then start in one order here and in the other there. One for each rank; empty when the ranks do not
// have the same collectives, or only one rank is there.
std::vector<RankWaits> divide(const std::vector<std::string>& times_of_ranks);

}  // namespace strata::trainer::profile
