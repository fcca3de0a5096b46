// SPDX-License-Identifier: MIT
// Times all-gather, reduce-scatter and all-reduce of the ranks that run, by bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sharding/rank_session.h"

namespace strata::tools {

struct CollectiveTimes {
  std::string_view operation;
  int64_t bytes;  // bytes of the larger side, in float32
  std::vector<double> seconds;
};

// Collective. Passes each measurement to `done` on rank 0. There are none for a rank that is alone.
void time_collectives(sharding::RankSession& session, const std::function<void(const CollectiveTimes&)>& done);

}  // namespace strata::tools
