// SPDX-License-Identifier: MIT
// Times one call of an op, forward and backward, in seconds: the median of many calls over rotating inputs that no
// cache holds.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernels/proof/workload.h"

namespace strata::tools {

struct Timing {
  double forward = 0;
  std::optional<double> backward;  // absent if the op is not differentiable or is timed as a whole
  std::optional<double> whole;     // forward and backward together, if Workload::timed_whole; then forward is 0

  double forward_or_whole() const { return whole.value_or(forward); }
  double total() const { return forward_or_whole() + backward.value_or(0); }
};

// On a GPU, it is the time between two events with several short calls in between while the queue is full. On a CPU, it
// is measured with a steady clock.
Timing time_workload(const kernels::Workload& workload, kernels::Level level);

// Returns the seconds of call(i), i = 0, 1, ..., of each sample. On a GPU a sample is the mean of several short calls.
std::vector<double> sampled_seconds(at::Device device, const std::function<void(int64_t)>& call);

// Returns their median.
double median_seconds(at::Device device, const std::function<void(int64_t)>& call);

// Returns the bytes of the last-level cache.
int64_t cache_bytes(at::Device device);

// Returns how many sets of inputs calls take in turn, so that the data of a call, `bytes` bytes, have left the cache
// before they are used again: at least 2, at most 64.
int64_t rotating_sets(int64_t bytes, at::Device device);

}  // namespace strata::tools
