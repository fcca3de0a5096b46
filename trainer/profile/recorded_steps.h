// SPDX-License-Identifier: MIT
// Recorded steps: their work, its origin, and how the time of a step is divided.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/profile/attribution.h"
#include "trainer/profile/recording.h"

namespace strata::trainer::profile {

// A kernel, copy or fill on the device; on CPUs, a function of the host.
struct Activity {
  std::string name;
  Origin origin;
  int64_t start = 0, end = 0, stream = 0;
  int64_t own = 0;  // nanoseconds; on CPUs, without the functions that it calls
  bool is_collective() const { return is_communication(origin.level); }
  // True for NCCL kernels, inside which a GPU waits for the others; copy engines wait outside of their copies.
  bool is_collective_kernel() const { return name.find("nccl") != std::string::npos; }
};

struct RecordedStep {
  int64_t number = 0;
  bool on_device = false;
  bool replayed = false;  // true if it was replayed from a CUDA graph
  bool pruned = false;    // true if it multiplied with the pruned weights of `sparsity`
  int64_t start = 0, end = 0;
  std::vector<Activity> activities = {};  // sorted by start
  int64_t host_waits = 0;                 // calls in which the step waited on the host for the device
  std::string difference = {};            // how a replay differs from its eager step; empty if not at all
};

// Times in nanoseconds. forward + backward + optimizer + other = compute; compute + exposed + idle = total. On CPUs,
// communication is the time in which the training loop waits for it.
struct StepTimes {
  int64_t total = 0;
  int64_t forward = 0;          // work of the forward, without collectives, is running
  int64_t backward = 0;         // work of the backward, with recomputation, and none of the forward is running
  int64_t optimizer = 0;        // only work of the optimizer is running
  int64_t other = 0;            // other work is running: inputs, results, kernels of a replay without a name
  int64_t compute = 0;          // work other than a collective is running
  int64_t communication = 0;    // a collective is running
  int64_t exposed = 0;          // a collective is running and nothing else
  int64_t idle = 0;             // nothing is running
  int64_t launches = 0;         // a number: kernels, copies and fills; on CPUs, calls of LibTorch's operators
  std::string difference = {};  // see RecordedStep; if it is not empty, `other` includes work of the phases
};
StepTimes times_of(const RecordedStep& step);
// Returns the means, each rounded down, and the first difference.
StepTimes mean_of(std::span<const RecordedStep> steps);

// Reads steps from recordings. It names the kernels of replays, each of which is a single launch, by their order in an
// eager step.
class StepReader {
 public:
  // Returns the steps of a recording, in order. An eager step becomes the pattern for the replays that follow it, also
  // in later recordings.
  std::vector<RecordedStep> read(const Recording& recording);

  // The number of device activities without a recorded launch, which belong to no step.
  int64_t without_launch() const { return without_launch_; }

 private:
  void read_device(const Recording& recording, const Attribution& attribution, std::vector<RecordedStep>& steps);

  std::vector<Activity> pattern_;  // in launch order
  int64_t without_launch_ = 0;
};

}  // namespace strata::trainer::profile
