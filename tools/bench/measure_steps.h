// SPDX-License-Identifier: MIT
// Measures the time and memory of steps: the loop of a benchmark, which loads and saves no checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sharding/rank_session.h"
#include "tools/bench/step_counter.h"
#include "trainer/profile/recorded_steps.h"
#include "trainer/step.h"

namespace strata::tools {

// The results of a benchmark.
struct StepMeasurement {
  std::vector<double> milliseconds = {};                     // time of each measured step
  std::vector<double> profiled_milliseconds = {};            // times of the profiled steps after them
  std::optional<trainer::profile::StepTimes> profiled = {};  // mean times on this rank, by what they were spent on
  std::optional<double> watts = {};                          // power of this rank's GPU
  int64_t peak_memory_bytes = 0;
  int64_t step_memory_bytes = 0;   // the most that tensors of step 2 take beside what stays from step to step
  StepCounts counts = {};          // counts of step 2, on this rank
  int64_t device_allocations = 0;  // calls of cudaMalloc during the measured steps
  int64_t skipped = 0;             // measured steps whose update was skipped: they do less than others
  int64_t overflowed = 0;          // measured steps that loss scaling skipped; see StepResult::overflowed
  bool captured = false;           // the steps were replays of a CUDA graph
  float loss = 0;                  // loss of the last step
  // The result of step 1. If its gradients overflowed in float16, it is the result of the first step whose gradients
  // did not. If all did, it is the result of the last step of the warm-up.
  trainer::StepResult first = {};
};

// Runs `warm_up` steps and then `steps` measured ones, from the first step of the schedule on, and more up to
// `last_profiled`. It writes nothing but the profile, and nothing at all if run.folder is empty. `check` gets
// StepMeasurement::first before a step is measured; what it throws ends the measurement. `warm_up` is at least 2.
StepMeasurement measure_steps(trainer::Step& step, sharding::RankSession& session, int64_t warm_up, int64_t steps,
                              int64_t last_profiled, const std::function<void(const trainer::StepResult&)>& check);

}  // namespace strata::tools
