// SPDX-License-Identifier: MIT
// Recorded steps: what was done in each, where it comes from, and how the step's time is divided.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/profile/attribution.h"
#include "trainer/profile/trace.h"

namespace strata::trainer::profile {

// A kernel, copy or fill on the device; on CPUs a function of the host.
struct Activity {
  std::string name;
  Origin origin;
  int64_t start = 0, end = 0, stream = 0;
  int64_t own = 0;  // nanoseconds, on CPUs without the functions that it calls
  bool is_collective() const { return is_communication(origin.level); }
  // One of NCCL, in which a GPU waits for the others; copy engines wait outside of their copies.
  bool is_collective_kernel() const { return name.find("nccl") != std::string::npos; }
};

struct Step {
  int64_t number = 0;
  bool on_device = false;
  bool replayed = false;  // from a CUDA graph
  int64_t start = 0, end = 0;
  std::vector<Activity> activities = {};  // by start
  int64_t host_waits = 0;                 // calls in which a thread of the step waited for the device
  std::string difference = {};            // of a replay from the eager step that names its kernels; empty: none
};

// Nanoseconds. forward + backward + optimizer + other = compute; compute + exposed + idle = total. On CPUs
// communication is what the loop waits for.
struct StepTimes {
  int64_t total = 0;
  int64_t forward = 0;          // something of the forward, other than a collective, is under way
  int64_t backward = 0;         // of the backward, what it computes again included, and of no forward
  int64_t optimizer = 0;        // of the optimizer, and of neither
  int64_t other = 0;            // of none of them: inputs, results, kernels of a replay that have no name
  int64_t compute = 0;          // something other than a collective is under way
  int64_t communication = 0;    // a collective is under way
  int64_t exposed = 0;          // and nothing else is
  int64_t idle = 0;             // nothing is
  std::string difference = {};  // see Step; where it is not empty, `other` has work of the phases
};
StepTimes times_of(const Step& step);
// Means, each is rounded down, and the first difference.
StepTimes mean_of(const std::vector<Step>& steps);

// Names the kernels of replays, which the host launches all at once, by their order in an eager step.
class StepReader {
 public:
  // The steps of a trace, in order. An eager step becomes the pattern of the replays that follow, also of those in
  // later traces.
  std::vector<Step> read(const Trace& trace);

  // Work of the device of which no launch was recorded; it is in no step.
  int64_t without_launch() const { return without_launch_; }

 private:
  void read_device(const Trace& trace, const Attribution& attribution, std::vector<Step>& steps);

  std::vector<Activity> pattern_;  // in the order of their launches
  int64_t without_launch_ = 0;
};

}  // namespace strata::trainer::profile
