// SPDX-License-Identifier: MIT
// Times how fast the ranks of this machine make the images of steps and evaluations ready, while nothing else computes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "sharding/rank_session.h"
#include "trainer/config/load_config.h"

namespace strata::tools {

// What a promise must know of the images of a run: `name` stands for all on which the time to read a micro-batch
// depends, and `threads` is data.threads, or null if the images lie in memory, where one thread copies them. Null if
// the data are no images.
nlohmann::ordered_json feed_facts(const trainer::LoadedConfig& loaded);

struct FeedTimes {
  const char* pass = "";        // training: a step; evaluation: a round
  int64_t micro_batches = 1;    // micro-batches of a rank
  std::vector<double> seconds;  // seconds of each step or round, on the slowest rank
};

// Reads the data of the configuration as a step does: by the feed, with its hash and its copies to the device. If
// arrays of images cannot be read here, random ones take their place. If files cannot, at the start or while they are
// timed, there are no times. Both print the reason. Collective.
std::vector<FeedTimes> time_feed(const trainer::LoadedConfig& loaded, sharding::RankSession& session);

}  // namespace strata::tools
