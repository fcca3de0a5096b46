// SPDX-License-Identifier: MIT
// Seconds of one call, forward and backward: the median of many over rotating inputs that no cache holds.
#pragma once

#include <functional>
#include <optional>

#include "kernels/proof/workload.h"

namespace strata::tools {

struct Timing {
  double forward = 0;
  std::optional<double> backward;  // absent: the op is not differentiated, or timed as a whole
};

// On a GPU the time between two events, with several short calls between them, while the queue is full; on a CPU that
// of a steady clock.
Timing time_workload(const kernels::Workload& workload, kernels::Level level);

// The median seconds of call(i), i = 0, 1, ...
double median_seconds(at::Device device, const std::function<void(int64_t)>& call);

// Bytes of the last level of cache.
int64_t cache_bytes(at::Device device);

}  // namespace strata::tools
