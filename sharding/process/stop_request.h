// SPDX-License-Identifier: MIT
// Requests from outside to end the run cleanly: SIGTERM, SIGUSR1 and Ctrl-C set a flag that the ranks agree upon.
#pragma once

namespace strata::sharding {

// From now on SIGTERM, SIGUSR1 and SIGINT ask for a stop instead of ending the process; a second SIGINT exits 130 at
// once.
void install_stop_handlers();

// Whether this rank was asked. For the ranks to agree it is one more element of a sum that they make in every step.
bool stop_requested_here();

}  // namespace strata::sharding
