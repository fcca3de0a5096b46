// SPDX-License-Identifier: MIT
// Requests from outside to end the run cleanly: SIGTERM, SIGUSR1 and Ctrl-C set a flag that the ranks agree upon.
#pragma once

#include "sharding/bootstrap.h"

namespace strata::sharding {

// From now on SIGTERM, SIGUSR1 and SIGINT ask for a stop instead of ending the process; a second SIGINT exits 130 at
// once.
void install_stop_handlers();

// Whether this rank was asked. For those who have a collective in every step anyway: add it as one more element.
bool stop_requested_here();

// Whether any rank was asked: the same answer on every rank, for one small host message. Called by all at a step's
// border.
bool stop_requested(const Bootstrap& bootstrap);

}  // namespace strata::sharding
