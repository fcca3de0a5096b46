// SPDX-License-Identifier: MIT
// Requests to stop the run cleanly: SIGTERM, SIGUSR1 and Ctrl-C set a flag that the ranks agree upon.
#pragma once

#include <ATen/core/Tensor.h>

namespace strata::sharding {

// Installs handlers: SIGTERM, SIGUSR1 and SIGINT request a stop instead of ending the process. A second SIGINT exits
// with 130 at once.
void install_stop_handlers();

// True if this rank received a request. Ranks agree by adding it as one more element to a sum that they reduce in every
// step.
bool stop_requested_here();

// Returns that element: fp32, 0-dim, 0 or 1 after a request. The signal handler writes it, so work that was queued
// before the request reads it too. For a GPU it is pinned memory of the host, which kernels read in place. A process
// uses one device.
at::Tensor stop_request_on(at::Device device);

}  // namespace strata::sharding
