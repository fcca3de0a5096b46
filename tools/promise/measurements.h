// SPDX-License-Identifier: MIT
// What call_times prints and measures for promises: the facts of a run, and times of its ops, collectives and images.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "kernels/proof/workload.h"
#include "sharding/rank_session.h"
#include "trainer/config/load_config.h"
#include "trainer/config/trainer_config.h"
#include "trainer/prediction/step_calls.h"

namespace strata::tools {

// Names an op for measured times: op, shape, level, dtype, and whether the backward makes the gradient of its input.
nlohmann::ordered_json key_of(const trainer::OpCalls& calls);

// The facts of a run: sizes, memory, every op and collective of a step, and the versions on which times depend. `calls`
// receives the calls of a step. `device` is on the machine on which it would run. The number of evaluation
// samples is null if it needs data that cannot be read here.
nlohmann::ordered_json promise_facts(const trainer::TrainerConfig& config, at::Device device,
                                     trainer::StepCalls& calls);

// Seconds of one call in each round; empty if the op has no such pass.
struct RoundTimes {
  std::vector<double> forward, backward;
};

struct TimedOp {
  trainer::OpCalls calls;
  kernels::Workload workload;
  RoundTimes times = {};
};

// Times ops in turn, as the layers of a step call them. Between two calls of an op all other ops run, so caches and the
// allocator are in the state that a step leaves. Runs rounds of forward, backward and update for about `seconds`, at
// least 7 rounds, and fills `times`.
void time_rounds(std::vector<TimedOp>& ops, double seconds);

struct CollectiveTimes {
  std::string_view operation;
  int64_t bytes;  // bytes of the larger side, in float32
  std::vector<double> seconds;
};

// Times all-gather, reduce-scatter and all-reduce of the ranks that run, by bytes. Collective. Passes each measurement
// to `done` on rank 0. There are none for a rank that is alone.
void time_collectives(sharding::RankSession& session, const std::function<void(const CollectiveTimes&)>& done);

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
