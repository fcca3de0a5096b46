// SPDX-License-Identifier: MIT
// Divides the time of collectives into transfer and wait, and finds the ranks that the others waited for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/profile/recorded_steps.h"

namespace strata::trainer::profile {

// Returns a line with layer, nanoseconds and op for each collective of the steps on this rank. All-gathers by copy
// engines are left out, because they wait outside of their copies.
std::string collective_times(std::span<const RecordedStep> steps);

struct RankWaits {
  int64_t transfer = 0;  // the least time of any rank in each collective: that rank did not wait
  int64_t wait = 0;      // the rest of this rank's time in collectives
  int64_t last = 0;      // number of collectives that this rank reached last
  int64_t caused = 0;    // time that all other ranks waited in collectives that this rank reached last
};

// Divides the times of all ranks. A collective ends at the same time on all ranks, so the rank with the least time in
// it arrived last. All ranks must take part in all collectives.
//
// Only collectives of the same op and layer are compared, in the order of each rank: gathers and reductions may have
// separate streams, which ranks may start in different orders. Returns an element for each rank, or nothing if the
// ranks differ in their collectives or there is only one rank.
std::vector<RankWaits> divide(const std::vector<std::string>& times_of_ranks);

}  // namespace strata::trainer::profile
