// SPDX-License-Identifier: MIT
// The time of collectives divided into transfer and wait, and who was waited for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/profile/steps.h"

namespace strata::trainer::profile {

// Nanoseconds of the collectives of the steps on this rank, in the order in which all ranks run them, as one text.
std::string collective_times(const std::vector<Step>& steps);

struct RankWaits {
  int64_t transfer = 0;  // the least that any rank spent in each collective: that one did not wait
  int64_t wait = 0;      // this rank's time beyond that
  int64_t last = 0;      // collectives that this rank was the last to reach
  int64_t caused = 0;    // the wait of all other ranks in those
};

// A collective ends everywhere at once: whoever spends the least time in it came last. One for each rank; empty when
// the ranks do not have the same number of collectives, or only one rank is there.
std::vector<RankWaits> divide(const std::vector<std::string>& times_of_ranks);

}  // namespace strata::trainer::profile
