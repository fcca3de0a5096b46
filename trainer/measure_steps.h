// SPDX-License-Identifier: MIT
// How long steps take and how much memory they need: the loop of a benchmark, which reads no run and saves none.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sharding/bootstrap.h"
#include "trainer/profile/steps.h"
#include "trainer/step.h"

namespace strata::trainer {

// What a benchmark wants to know of a run.
struct Measurement {
  std::vector<double> milliseconds = {};            // of each step that counts
  std::vector<double> profiled_milliseconds = {};   // of the profiled steps behind them
  std::optional<profile::StepTimes> profiled = {};  // where their time went on this rank, means
  int64_t peak_memory_bytes = 0;
  int64_t device_allocations = 0;  // calls of cudaMalloc during the steps that count
  bool captured = false;           // the steps were replays of a CUDA graph
  float loss = 0;                  // of the last step
};

// Takes `warm_up` steps and then `steps` that count, from the first of the schedule on, and further ones up to
// `last_profiled`. A profile is all that is written, and where run.folder is empty nothing is.
Measurement measure_steps(Step& step, sharding::Bootstrap& bootstrap, int64_t warm_up, int64_t steps,
                          int64_t last_profiled);

}  // namespace strata::trainer
