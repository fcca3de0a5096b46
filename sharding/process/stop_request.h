// SPDX-License-Identifier: MIT
// Requests to stop the run cleanly: SIGTERM, SIGUSR1 and Ctrl-C set a flag that the ranks agree upon.
#pragma once

namespace strata::sharding {

// Installs handlers: SIGTERM, SIGUSR1 and SIGINT request a stop instead of ending the process. A second SIGINT exits
// with 130 at once.
void install_stop_handlers();

// True if this rank received a request. Ranks agree by adding it as one more element to a sum that they reduce in every
// step.
bool stop_requested_here();

}  // namespace strata::sharding
